package shellenv

// null writes NAME=value and a NUL for each variable, as env -0 and /proc/PID/environ
// do, for xargs -0 and for programs. An unset variable is written as an empty one.
var null = statements(
	func(name, value string) (string, error) {
		return name + "=" + value + "\x00", nil
	},
	func(name string) string {
		return name + "=\x00"
	},
)
