package watch

// maxComplaints is how many problems are said of one thing. One that has more has had its
// say: the texts are not ours alone, and need not come to an end.
const maxComplaints = 20

// complaints are what was said to be wrong.
type complaints struct{ said map[string]bool }

// first reports whether a problem is to be said, since it was not yet.
func (c *complaints) first(problem string) bool {
	if c.said[problem] || len(c.said) >= maxComplaints {
		return false
	}
	if c.said == nil {
		c.said = map[string]bool{}
	}
	c.said[problem] = true
	return true
}
