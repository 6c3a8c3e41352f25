package plugin_test

import "flag"

// Random histories have a seed, unless another is given: what fails, fails for what was
// changed. CONTRIBUTING.md says how to look further.
func init() {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}
