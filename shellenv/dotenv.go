package shellenv

import (
	"errors"
	"fmt"
	"strings"
)

// dotenv writes a .env file that node --env-file, the dotenv package of npm, godotenv
// and Docker Compose read alike.
//
// All of them take single quotes literally. With a quote or a line feed in the value,
// double quotes are left, where all of them read \n as a line feed; but node knows
// no other escape, and the others expand $ and read \" and \\, so a value that also
// holds one of those is refused. So is a backslash at the end, which hides the closing
// quote from godotenv and Compose, and a carriage return, which node drops.
// python-dotenv halves \\ in single quotes as well; text from SafeJSON has none.
//
// An unset variable is written as an empty one.
var dotenv = statements(
	func(name, value string) (string, error) {
		if err := refuse(value, "\r"); err != nil {
			return "", err
		}
		if !strings.ContainsAny(value, "'\n") {
			if strings.HasSuffix(value, `\`) {
				return "", errors.New("its value ends in a backslash")
			}
			return name + "='" + value + "'\n", nil
		}
		if i := strings.IndexAny(value, `"\$`); i >= 0 {
			return "", fmt.Errorf("its value holds a single quote or a line feed together with the character %c", value[i])
		}
		return name + `="` + strings.ReplaceAll(value, "\n", `\n`) + "\"\n", nil
	},
	emptied,
)
