package plugin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"

	. "github.com/mcp-reconnect/mcp-reconnect/plugin"
)

func TestStateIsWrittenWhenLoadedAndRemovedOnDisposal(t *testing.T) { // rule 18
	s := simulate(t, nil)
	i := s.load("/p", "a")
	state := i.saved()
	if state == nil || state.Format != 1 || state.Version != Version || state.Host != "here" || state.Started || len(state.Servers) != 0 {
		t.Fatalf("loaded: %+v", state)
	}
	other := s.load("/q", "a")
	s.pass(second)                                                                       // in which it creates its directory
	if n, watchers := s.pluginTimers(), len(s.files.watchers); n != 0 || watchers != 1 { // rule 2
		t.Errorf("unused, and yet %d timers and %d watchers", n, watchers)
	}
	i.prompt()
	s.pass(2 * second)
	if state := i.saved(); !state.Started || state.server("a").Status != "connected" {
		t.Errorf("in use: %+v", state)
	}
	i.hook("dispose")
	other.hook("dispose")
	if left := s.files.states(); len(left) != 0 || len(s.files.watchers) != 0 {
		t.Errorf("after disposal there are %v and %d watchers", left, len(s.files.watchers))
	}
}

func TestStateNamesTheListenerAlone(t *testing.T) {
	for url, want := range map[string]string{
		"http://localhost:4096/": "", // there is none
		"http://127.0.0.1:7/":    "http://127.0.0.1:7",
		"http://0.0.0.0:7/":      "http://127.0.0.1:7",
	} {
		s := simulate(t, nil)
		i := s.load("/p", "a")
		i.serverURL = url
		i.reload()
		if got := i.saved().URL; want == "" && got != nil || want != "" && (got == nil || *got != want) {
			t.Errorf("%s: %v", url, got)
		}
	}
}

// stateShowsEachPhase follows servers through all that may become of them.
func stateShowsEachPhase(t *scenarioT) {
	s := simulate(t, func(p *Policy) { p.MaxAttempts = 2; p.Skip = []string{"not-*"} })
	i := s.load("/p", "broken", "crashing", "off", "locked", "not-mine", "slow")
	i.servers["broken"].up, i.servers["not-mine"].up, i.servers["slow"].up = false, false, false
	i.servers["off"].state = "disabled"
	i.servers["locked"].needs = "needs_auth"
	want := func(name, status, phase string, tries int) savedServer {
		t.Helper()
		got := i.saved().server(name)
		if got.Status != status || got.Phase != phase || got.Tries != tries {
			t.Errorf("at %v %s is %+v, want %s, %q, %d tries", s.since(), name, got, status, phase, tries)
		}
		return got
	}
	i.prompt()
	s.pass(400 * ms) // the first try, and the state
	waiting := want("broken", "failed", "waiting", 1)
	if s.ago(waiting.DueAt) > 0 || s.ago(waiting.DueAt) < -second || s.ago(waiting.TriedAt) > 400*ms {
		t.Errorf("tried %v ago, and due in %v", s.ago(waiting.TriedAt), -s.ago(waiting.DueAt))
	}
	want("crashing", "connected", "", 0)
	want("off", "disabled", "", 0)
	want("locked", "needs_auth", "", 0)
	want("not-mine", "failed", "skipped", 0)

	i.servers["slow"].takes = 5 * second
	s.pass(1500 * ms)
	want("slow", "failed", "trying", 2)
	i.crash("crashing")
	s.pass(second)
	up := want("crashing", "connected", "up", 1)
	if up.Error != "Connection closed" || up.DueAt != nil {
		t.Errorf("the last error is %q, and a try is due at %v", up.Error, up.DueAt)
	}
	parked := want("broken", "failed", "parked", 2)
	if due := -s.ago(parked.DueAt); due < 4*minute || due > 5*minute {
		t.Errorf("the probe is due in %v", due)
	}
	if since := s.ago(parked.Since); since < 2*second || since > 3*second {
		t.Errorf("failed since %v", since)
	}
	i.servers["broken"].state = "needs_client_registration"
	s.pass(31 * second)
	want("broken", "needs_client_registration", "aside", 2)
	s.pass(minute)
	want("crashing", "connected", "", 0)
	i.servers["slow"].up = true
	s.pass(10 * minute)
	want("slow", "connected", "", 0)
	i.servers["slow"].up = false
	i.fail("slow")
	s.pass(31 * minute) // idle
	if got := i.saved().server("slow"); got.Phase != "dormant" || got.DueAt != nil {
		t.Errorf("idle: %+v", got)
	}
	delete(i.servers, "off")
	i.prompt()
	s.pass(2 * second)
	want("off", "", "", 0)
}

// stateHoldsNoSecrets: errors are told as template/testdata/errors.json says.
func stateHoldsNoSecrets(t *scenarioT) {
	s := simulate(t, nil)
	i := s.load("/p", "a")
	text, err := os.ReadFile("../template/testdata/errors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Readable []string
		Told     []struct{ Said, Told string }
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	said := map[string]string{
		strings.Repeat("-", 200_000):       strings.Repeat("-", 200), // and not in an hour
		strings.Repeat("a", 200_000) + "!": strings.Repeat("a", 200),
		strings.Repeat("word ", 40_000):    strings.Repeat("word ", 40),
		strings.Repeat("é🙂", 100_000):      strings.Repeat("é🙂", 100),
	}
	for _, v := range vectors.Told {
		said[v.Said] = v.Told
	}
	for _, text := range vectors.Readable {
		said[text] = text
	}
	if t.engine == "plugin" { // package reconnect does not know OpenCode's variables
		said["invalid token swordfish"] = "invalid token …"
		said["swordfish99 and swordfish"] = "… and …" // the longer one begins as the other does
	}
	for said, want := range said {
		i.servers["a"].state, i.servers["a"].reason, i.servers["a"].up = "failed", said, false
		i.prompt()
		s.pass(5 * second)
		if got := i.saved().server("a").Error; got != want {
			t.Errorf("%.60q is told as %.60q, want %.60q", said, got, want)
		}
	}
}

// TestStateStaysSmall lets two servers crash all the time for a month.
func TestStateStaysSmall(t *testing.T) {
	s := simulate(t, nil)
	i := s.load("/p", "a", "broken")
	i.servers["broken"].up = false
	most := 0
	for day := range 30 {
		i.prompt()
		for n := range 20 {
			i.servers["broken"].reason = fmt.Sprint("for reason ", day, n)
			i.crash("a")
			s.pass(71 * second)
			for _, content := range s.files.states() {
				most = max(most, len(content))
			}
		}
		s.pass(23 * time.Hour)
	}
	if n := len(s.files.content); n != 1 || most > 1000 {
		t.Errorf("%d files, of at most %d bytes", n, most)
	}
}

// TestEventsAreOneWrite is rule 10's for the state.
func TestEventsAreOneWrite(t *testing.T) {
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(10 * second)
	before := s.files.writes
	for range 10_000 {
		i.event("mcp.tools.changed", object{"server": "a"})
	}
	i.prompt()
	s.pass(10 * minute)
	if n := s.files.writes - before; n > 1 {
		t.Errorf("%d writes, though nothing changed", n)
	}
}

func TestWhatDeadProcessesLeftIsRemoved(t *testing.T) {
	s := simulate(t, nil)
	const hash = "-0123456789abcdef"
	for name, content := range map[string]string{
		"7" + hash + ".json":    `{"host":"here","space":""}`,
		".7" + hash + ".tmp":    `{"ho`,
		"8" + hash + ".json":    `{"host":"elsewhere"}`,
		"9" + hash + ".json":    `{"ho`,
		"4243" + hash + ".json": `{"host":"here","space":""}`, // lives
		"4244" + hash + ".json": `{"host":"here","space":""}`, // lives, and is another user's
		"6" + hash + ".json":    `{"host":"here","space":"another"}`,
		"5" + hash + ".json":    strings.Repeat(" ", 2<<20),
		"notes.txt":             "",
	} {
		s.files.content[instanceDirectory+"/"+name] = content
	}
	s.load("/p", "a")
	s.load("/q", "a")
	for name, stays := range map[string]bool{"7" + hash + ".json": false, ".7" + hash + ".tmp": true, "5" + hash + ".json": true, "6" + hash + ".json": true,
		"8" + hash + ".json": true, "9" + hash + ".json": true, "4243" + hash + ".json": true, "4244" + hash + ".json": true, "notes.txt": true} {
		if _, there := s.files.states()[name]; there != stays {
			t.Errorf("%s is there: %t, want %t", name, there, stays)
		}
	}
}

// crashesAndComesBack uses the instance, and shows that its server a is looked after.
func (i *instance) crashesAndComesBack() {
	i.sim.t.Helper()
	i.prompt()
	i.sim.pass(10 * second)
	i.crash("a")
	i.sim.pass(second)
	i.mustBe("connected", "a")
}

// TestBrokenDiskChangesNothing: rule 18 is for people; the servers come back without.
func TestBrokenDiskChangesNothing(t *testing.T) {
	s := simulate(t, nil)
	s.files.broken = true
	i := s.load("/p", "a")
	i.crashesAndComesBack()
	i.hook("dispose")
}

// TestCopyElsewhereKeepsNoState: somebody's own copy of the file does not litter.
func TestCopyElsewhereKeepsNoState(t *testing.T) {
	s := simulate(t, nil)
	s.files.elsewhere = true
	s.factory, _ = goja.AssertFunction(s.load1())
	i := s.load("/p", "a")
	i.crashesAndComesBack()
	if len(s.files.content) != 0 || s.files.opened != 0 {
		t.Errorf("%d files and %d watchers", len(s.files.content), s.files.opened)
	}
}

func pauseAndResume(t *scenarioT) { // rule 19
	for _, unseen := range []bool{false, true} { // where no change is told, the next read finds it
		if unseen && t.engine != "plugin" {
			continue // what is told to package reconnect is its host's
		}
		s := simulate(t, func(p *Policy) { p.PollInterval = second })
		s.files.unseen = unseen
		i := s.load("/p", "a", "b")
		i.servers["b"].up = false
		i.prompt()
		s.pass(10 * second)
		s.files.write("control.json", `{"paused":true}`)
		s.pass(second)
		if state := i.saved(); !state.Paused || state.server("b").Phase != "dormant" {
			t.Errorf("paused: %+v", state)
		}
		before := len(i.servers["b"].tried)
		i.servers["b"].up = true
		i.crash("a")
		i.prompt()
		s.pass(minute)
		i.mustBe("failed", "a", "b")
		if n := len(i.servers["a"].tried) + len(i.servers["b"].tried); n != before {
			t.Errorf("paused, and yet %d tries", n-before)
		}
		s.files.write("control.json", `{"paused":false}`)
		s.pass(second + 250*ms)
		i.mustBe("connected", "a", "b")
		if i.saved().Paused {
			t.Error("still paused")
		}
	}
}

func pauseSurvivesRestarts(t *scenarioT) {
	s := simulate(t, nil)
	s.files.write("control.json", `{"paused":true,"retry":{"at":1,"servers":[]}}`)
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.prompt()
	s.pass(minute)
	if n := len(i.servers["a"].tried); n != 0 || !i.saved().Paused {
		t.Errorf("%d tries; %+v", n, i.saved())
	}
}

// pauseDuringATry: what was begun ends; what waits for its slot or its status does not begin.
func pauseDuringATry(t *scenarioT) {
	s := simulate(t, func(p *Policy) { p.Concurrency = 1 })
	i := s.load("/p", "a", "b")
	for _, name := range []string{"a", "b"} {
		i.servers[name].up, i.servers[name].takes = false, 10*second
	}
	i.prompt()
	s.pass(5 * second)
	s.files.write("control.json", `{"paused":true}`)
	s.pass(10 * minute)
	if n := len(i.servers["a"].tried) + len(i.servers["b"].tried); n != 1 {
		t.Errorf("%d tries, want the one that was under way", n)
	}
	if state := i.saved(); state.server("a").Phase != "dormant" || state.server("b").Phase != "dormant" {
		t.Errorf("%+v", state)
	}
}

func retryTriesNow(t *scenarioT) { // rule 19
	s := simulate(t, func(p *Policy) { p.MaxAttempts = 1 })
	used, unused, other := s.load("/used", "a", "b"), s.load("/unused", "a", "b"), s.load("/other", "a", "b")
	for _, i := range []*instance{used, unused, other} {
		i.servers["a"].up, i.servers["b"].up = false, false
	}
	tries := func() string {
		var all []string
		for _, i := range []*instance{used, unused, other} {
			all = append(all, fmt.Sprintf("%d+%d", len(i.servers["a"].tried), len(i.servers["b"].tried)))
		}
		return strings.Join(all, " ")
	}
	used.prompt()
	other.prompt()
	s.pass(31 * minute) // parked and idle
	last := tries()
	at := int64(0)
	retry := func(rest string) {
		at = s.now.UnixMilli()
		s.files.write("control.json", fmt.Sprintf(`{"paused":false,"retry":{"at":%d,%s}}`, at, rest))
	}
	for _, tt := range []struct{ retry, adds string }{
		{`"servers":[]`, "1+1 0+0 1+1"},
		{`"servers":["a"]`, "1+0 0+0 1+0"}, // at once, though it was woken a moment ago
		{`"servers":["b"],"directories":["/used","/x"]`, "0+1 0+0 0+0"},
		{`"servers":["c"]`, "0+0 0+0 0+0"},
		{`"servers":["a","b"],"directories":["/unused"]`, "0+0 0+0 0+0"}, // rule 2
		{`"servers":"a"`, "1+1 0+0 1+1"},                                 // as none, malformed
	} {
		retry(tt.retry)
		s.pass(second)
		var want []string
		for n, was := range strings.Fields(last) {
			var a, b, da, db int
			fmt.Sscanf(was, "%d+%d", &a, &b)
			fmt.Sscanf(strings.Fields(tt.adds)[n], "%d+%d", &da, &db)
			want = append(want, fmt.Sprintf("%d+%d", a+da, b+db))
		}
		if last = tries(); last != strings.Join(want, " ") {
			t.Errorf("%s: %s tries, want %s", tt.retry, last, want)
		}
		if used.saved().RetriedAt != at || unused.saved().RetriedAt != 0 {
			t.Errorf("%s: seen at %d and %d, want %d", tt.retry, used.saved().RetriedAt, unused.saved().RetriedAt, at)
		}
	}
	// What is none of its business is not even a sign of use.
	reads := used.reads
	retry(`"servers":["c"]`)
	s.pass(second)
	retry(`"servers":[],"directories":["/other"]`)
	s.pass(second)
	if used.reads != reads {
		t.Errorf("%d reads for what is asked of others", used.reads-reads)
	}
	// What was asked of others is not done again by who comes later.
	unused.prompt()
	s.pass(10 * second)
	if last = tries(); !strings.Contains(last, " 1+1 ") {
		t.Errorf("who came later made %s tries", last)
	}
}

func retryForgetsBackOff(t *scenarioT) {
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.prompt()
	s.pass(25 * second) // the next try is far
	i.servers["a"].up = true
	s.files.write("control.json", fmt.Sprintf(`{"paused":false,"retry":{"at":%d}}`, s.now.UnixMilli()))
	s.pass(300 * ms)
	i.mustBe("connected", "a")
	if n := len(i.log); n == 0 || !strings.Contains(i.log[n-1], "a is back (6 tries, 25.") { // the outage is what it was
		t.Errorf("the log ends with %q", i.log[n-1])
	}
	if got := i.saved().server("a").Tries; got != 1 {
		t.Errorf("%d tries count", got)
	}
}

// TestRetryDuringATry: that try is the first one of what follows, and it may be given up, and
// that be said, once more.
func TestRetryDuringATry(t *testing.T) {
	s := simulate(t, func(p *Policy) { p.MaxAttempts = 2 })
	i := s.load("/p", "a")
	i.servers["a"].up = false
	i.prompt()
	s.pass(minute)
	i.servers["a"].takes, i.servers["a"].up = 5*second, true
	i.prompt()
	s.pass(2 * second)
	s.files.write("control.json", fmt.Sprintf(`{"paused":false,"retry":{"at":%d}}`, s.now.UnixMilli()))
	s.pass(second)
	if i.saved().server("a").Retried {
		t.Error("no try began since, and yet it is said so")
	}
	s.pass(10 * second)
	if got := i.log[len(i.log)-1]; !strings.Contains(got, "a is back (3 tries, ") {
		t.Errorf("the log ends with %q", got)
	}
	i.servers["a"].up, i.servers["a"].takes = false, 100*ms
	for range 2 {
		s.files.write("control.json", fmt.Sprintf(`{"paused":false,"retry":{"at":%d}}`, s.now.UnixMilli()))
		i.servers["a"].reset(s.now)
		i.crash("a")
		s.pass(minute)
		if !i.saved().server("a").Retried {
			t.Error("tried, and it is not said")
		}
	}
	given := 0
	for _, line := range i.log {
		if strings.Contains(line, "a is still failed") {
			given++
		}
	}
	if given != 3 {
		t.Errorf("it is said %d times that it is given up: %q", given, i.log)
	}
}

// TestStateIsWrittenLater: what could not be written is written when it can be, and a disk that
// stays broken keeps nobody busy.
func TestStateIsWrittenLater(t *testing.T) {
	for name, spoil := range map[string]func(f *files, spoilt bool){
		"broken": func(f *files, spoilt bool) { f.broken = spoilt },
		"full":   func(f *files, spoilt bool) { f.full = spoilt },
	} {
		s := simulate(t, func(p *Policy) { p.PollInterval = 10 * minute })
		i := s.load("/p", "a", "b")
		i.prompt()
		s.pass(10 * second)
		spoil(s.files, true)
		i.crash("a")
		s.pass(3 * second)
		if n := len(s.files.content); n != 1 {
			t.Errorf("%s: %d files, want the state that was", name, n)
		}
		spoil(s.files, false)
		s.pass(10 * second)
		if got := i.saved().server("a"); got.Phase != "up" {
			t.Errorf("%s, and mended: %+v", name, got)
		}
		spoil(s.files, true)
		i.crash("b")
		s.pass(45 * minute)
		if n := s.pluginTimers(); n != 0 {
			t.Errorf("%s: idle, and %d timers", name, n)
		}
	}
}

// TestLinksAreNotFollowed: what stands at our names and is no file of ours is not read, nor
// written through.
func TestLinksAreNotFollowed(t *testing.T) {
	s := simulate(t, nil)
	s.files.links[controlFile] = true
	s.files.content[controlFile] = `{"paused":true}`
	i := s.load("/p", "a")
	i.crashesAndComesBack()
	s.files.links[instanceDirectory] = true
	writes := s.files.writes
	i.crash("a")
	s.pass(minute)
	if s.files.writes != writes {
		t.Error("it wrote into the directory that a link leads to")
	}
}

// TestWithoutWatches: where the system has none left, control.json is looked at.
func TestWithoutWatches(t *testing.T) {
	s := simulate(t, nil)
	s.files.unwatched = true
	i := s.load("/p", "a")
	i.prompt()
	s.pass(31 * minute) // idle: no polls
	s.files.write("control.json", `{"paused":true}`)
	s.pass(second)
	if !i.saved().Paused {
		t.Error("it did not hear of the pause")
	}
	i.hook("dispose")
	if len(s.files.watchers) != 0 {
		t.Error("a watcher is left")
	}
}

// TestSteeringSurvivesItsDirectory: somebody removes the state directory, or all of the data
// directory and installs anew.
func TestSteeringSurvivesItsDirectory(t *testing.T) {
	steps := map[string]func(*simulation){
		"state":     func(s *simulation) { s.files.remove(stateDirectory) },
		"instances": func(s *simulation) { s.files.remove(instanceDirectory) },
		"copy":      func(s *simulation) { s.files.replace() },
		"plugin": func(s *simulation) {
			s.files.remove(pluginDirectory)
			s.pass(minute)
			s.files.dirs[pluginDirectory] = true
		},
		"both": func(s *simulation) {
			s.files.remove(stateDirectory)
			s.files.remove(pluginDirectory)
			s.pass(minute)
			if len(s.files.dirs) != 0 || len(s.files.content) != 0 { // it was uninstalled
				t.Errorf("made again: %v", s.files.dirs)
			}
			s.files.dirs[pluginDirectory], s.files.dirs[stateDirectory] = true, true // as env does
			s.files.notify()
		},
	}
	for name, step := range steps {
		for _, unwatched := range []bool{false, true} {
			s := simulate(t, nil)
			s.files.unwatched = unwatched
			i, unused := s.load("/p", "a"), s.load("/q", "a")
			i.prompt()
			s.pass(31 * minute) // idle: no polls, which would find it
			for range 3 {
				step(s)
				s.pass(second)
				if state := i.saved(); state == nil || state.server("a").Status != "connected" || unused.saved() == nil {
					t.Fatalf("%s (unwatched: %t): %+v, %+v", name, unwatched, state, unused.saved())
				}
				for _, paused := range []bool{true, false} {
					s.files.write("control.json", fmt.Sprintf(`{"paused":%t}`, paused))
					s.pass(second)
					if i.saved().Paused != paused {
						t.Fatalf("%s (unwatched: %t): it did not hear of paused=%t", name, unwatched, paused)
					}
				}
			}
		}
	}
}

// TestWhatNoChangeIsToldOf: the next status finds that the file was removed, or that another
// directory stands in the place of the one that is watched.
func TestWhatNoChangeIsToldOf(t *testing.T) {
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(10 * second)
	for name := range s.files.states() {
		delete(s.files.content, instanceDirectory+"/"+name)
	}
	s.pass(31 * second)
	if i.saved() == nil {
		t.Error("the file was not written anew")
	}
	clear(s.files.watchers) // as those of a directory that was moved away
	s.files.inode++
	s.pass(31 * second)
	s.files.write("control.json", `{"paused":true}`)
	s.pass(second)
	if !i.saved().Paused {
		t.Error("it did not hear of the pause")
	}
}

// askedFor: a directory that somebody names counts as used, whatever start says; others do not.
func askedFor(t *scenarioT) { // rules 2 and 19
	for _, start := range []string{"use", "mcp", "load"} {
		s := simulate(t, func(p *Policy) { p.Start = start })
		// What was asked for before it was there is none of its business.
		s.files.write("control.json", fmt.Sprintf(`{"paused":false,"retry":{"at":%d,"servers":[],"use":["/p"]}}`, s.now.UnixMilli()))
		i, other := s.load("/p", "a", "b"), s.load("/q", "a")
		i.servers["b"].up = false
		i.start() // by a client that reads the status
		s.pass(minute)
		s.files.write("control.json", `{"paused":false}`)
		s.pass(minute)
		if start != "load" && i.reads != 0 {
			t.Fatalf("start=%s: %d reads before", start, i.reads)
		}
		i.servers["b"].up = true
		s.files.write("control.json", fmt.Sprintf(`{"paused":false,"retry":{"at":%d,"servers":[],"directories":["/p"],"use":["/p"]}}`, s.now.UnixMilli()))
		s.pass(second)
		i.mustBe("connected", "a", "b")
		if state := i.saved(); !state.Started || !state.server("b").Retried || state.RetriedAt == 0 {
			t.Errorf("start=%s: %+v", start, state)
		}
		if start != "load" && other.reads != 0 {
			t.Errorf("start=%s: the other directory was looked at", start)
		}
	}
}

func TestGarbageAsControlIsNothing(t *testing.T) {
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(10 * second)
	for _, content := range []string{"", "{", "null", "3", `"x"`, "[]", `{"paused":"yes"}`, `{"retry":{"at":9e15}}`, `{"paused":1,"retry":7}`, `{"retry":{"at":"x","servers":{}}}`,
		`{"retry":{"at":-1}}`, `{"retry":{"at":0,"servers":[{}]}}`, `{"retry":null}`, strings.Repeat("[", 100_000)} {
		s.files.write("control.json", content)
		i.crash("a")
		s.pass(2 * minute)
		i.mustBe("connected", "a")
	}
}

func TestStateOfTheNewestCopy(t *testing.T) { // rule 6
	s := simulate(t, nil)
	i := s.load("/p", "a")
	i.prompt()
	s.pass(10 * second)
	i.reload()
	if state := i.saved(); state == nil || state.Started || len(s.files.watchers) != 1 {
		t.Errorf("a new copy: %+v, %d watchers", state, len(s.files.watchers))
	}
	i.prompt()
	s.pass(10 * second)
	if state := i.saved(); !state.Started || len(s.files.watchers) != 1 || len(s.files.content) != 1 {
		t.Errorf("in use: %+v, %d watchers, %d files", state, len(s.files.watchers), len(s.files.content))
	}
	if left := s.run(`globalThis[Symbol.for("mcp-reconnect/2")].residents.size`); left.ToInteger() != 1 || goja.IsUndefined(left) {
		t.Errorf("%v engines", left)
	}
}
