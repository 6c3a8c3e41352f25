package plugin_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dop251/goja"
	"pgregory.net/rapid"

	. "github.com/mcp-reconnect/mcp-reconnect/plugin"
)

// An engine is what a simulation tests. The model tells it what happens; it calls an
// instance's status, connect and logged.
type engine interface {
	load(i *instance) // another one for the instance, if it has one
	prompt(i *instance)
	event(i *instance, kind string, properties object)
	version(i *instance, version string)            // a session tells it
	configure(i *instance, remotes map[string]bool) // which of the servers are
	call(i *instance, id, tool, state, text string) // a part of a message tells of a tool's call
	dispose(i *instance)
	saved(i *instance) *savedState
	settle()      // does what follows at once from a callback of the model
	left() string // what is left when every instance is disposed, "" if nothing is
}

// engines start a process with each: one behaviour, two hosts.
var engines = map[string]func(rapid.TB, Policy) *simulation{
	"plugin":    newSimulation,
	"reconnect": newReconnect,
}

// A scenarioT is a test of one engine.
type scenarioT struct {
	*testing.T
	engine string
}

func (t *scenarioT) Run(name string, f func(*scenarioT)) bool {
	return t.T.Run(name, func(inner *testing.T) { f(&scenarioT{inner, t.engine}) })
}

// scenarios hold for every engine.
var scenarios = []struct {
	name string
	run  func(*scenarioT)
}{
	{"UnusedInstancesCostNothing", unusedInstancesCostNothing},
	{"CrashedServerIsBackAfterFirstDelay", crashedServerIsBackAfterFirstDelay},
	{"AllFailedAtStartComeBackAfterOnePrompt", allFailedAtStartComeBackAfterOnePrompt},
	{"BackoffAndParking", backoffAndParking},
	{"PromptWakesAParkedServerOnceAMinute", promptWakesAParkedServerOnceAMinute},
	{"OnlyFailedIsActedOn", onlyFailedIsActedOn},
	{"PendingTryIsDroppedWhenTheStateChanges", pendingTryIsDroppedWhenTheStateChanges},
	{"VanishedServerIsForgotten", vanishedServerIsForgotten},
	{"ShortLivedConnectionCountsAsAFailedTry", shortLivedConnectionCountsAsAFailedTry},
	{"LongHealthyPeriodGivesAFullBudget", longHealthyPeriodGivesAFullBudget},
	{"HungConnectFreesItsSlotAndIsNotRepeated", hungConnectFreesItsSlotAndIsNotRepeated},
	{"BudgetIsOneForAllInstances", budgetIsOneForAllInstances},
	{"NoAnswerIsNoFailure", noAnswerIsNoFailure},
	{"MalformedStatusOfAServerStopsNothing", malformedStatusOfAServerStopsNothing},
	{"HungStatusReadIsGivenUp", hungStatusReadIsGivenUp},
	{"NothingHappensAfterDisposal", nothingHappensAfterDisposal},
	{"EventStormIsOneReadInASecond", eventStormIsOneReadInASecond},
	{"EveryNameOfTheEventWakes", everyNameOfTheEventWakes},
	{"Start", start},
	{"IdleInstanceIsNotPolled", idleInstanceIsNotPolled},
	{"SleepOfTheMachineResetsTheSchedule", sleepOfTheMachineResetsTheSchedule},
	{"ClockOnTheWallMayJump", clockOnTheWallMayJump},
	{"OverloadGoesToMaxDelayOneByOne", overloadGoesToMaxDelayOneByOne},
	{"LeastGapBetweenTwoTries", leastGapBetweenTwoTries},
	{"CrashLoopDoesNotKeepAnInstanceInUse", crashLoopDoesNotKeepAnInstanceInUse},
	{"CountSurvivesMissingAnswers", countSurvivesMissingAnswers},
	{"StatusReadsNeverOverlap", statusReadsNeverOverlap},
	{"MissingCommandIsParkedAfterThreeTries", missingCommandIsParkedAfterThreeTries},
	{"Patterns", patterns},
	{"JitterSpreadsFirstTries", jitterSpreadsFirstTries},
	{"IdleInstanceWithoutAnswersIsLeftAlone", idleInstanceWithoutAnswersIsLeftAlone},
	{"LongIntervalsEndWithIdleAfter", longIntervalsEndWithIdleAfter},
	{"FlappingServerWhoseDeathsMakeNoSignIsParked", flappingServerWhoseDeathsMakeNoSignIsParked},
	{"SlowReadsHoldNoSlot", slowReadsHoldNoSlot},
	{"SlotOutlivedByAReadIsAskedForAgain", slotOutlivedByAReadIsAskedForAgain},
	{"ServerSwitchedOffByTheUserStartsAnew", serverSwitchedOffByTheUserStartsAnew},
	{"OverloadIsKnownAtFirstSight", overloadIsKnownAtFirstSight},
	{"ShortIdleAfterDoesNotStrandAParkedServer", shortIdleAfterDoesNotStrandAParkedServer},
	{"LateConfirmationIsOurs", lateConfirmationIsOurs},
	{"PatternsAreMatchedInLinearTime", patternsAreMatchedInLinearTime},
	{"EverythingFailsAtOnce", everythingFailsAtOnce},
	{"MemoryStaysFlat", memoryStaysFlat},
	{"RegistryAfterManyLives", registryAfterManyLives},
	{"StateShowsEachPhase", stateShowsEachPhase},
	{"StateHoldsNoSecrets", stateHoldsNoSecrets},
	{"PauseAndResume", pauseAndResume},
	{"PauseSurvivesRestarts", pauseSurvivesRestarts},
	{"PauseDuringATry", pauseDuringATry},
	{"AskedFor", askedFor},
	{"RetryTriesNow", retryTriesNow},
	{"RetryForgetsBackOff", retryForgetsBackOff},
	{"RestartedServerIsBackAtOnce", restartedServerIsBackAtOnce},
	{"FlappingServerIsParked", flappingServerIsParked},
	{"BrokenThenRestarted", brokenThenRestarted},
	{"PromptDuringAPauseIsNotLost", promptDuringAPauseIsNotLost},
	{"LongBrokenServerIsForgiven", longBrokenServerIsForgiven},
	{"ProofRestartsOnce", proofRestartsOnce},
	{"NoProof", noProof},
	{"RemoteProof", remoteProof},
	{"ReconnectedByOthers", reconnectedByOthers},
	{"ForcedAside", forcedAside},
	{"PauseForgetsWhatWasProven", pauseForgetsWhatWasProven},
	{"EndlessCallDelaysOneRestart", endlessCallDelaysOneRestart},
	{"ProofOfAFailedServerGoesItsUsualWay", proofOfAFailedServerGoesItsUsualWay},
	{"RestartWaitsForOtherCalls", restartWaitsForOtherCalls},
	{"CompletedCallDisproves", completedCallDisproves},
	{"CallOfTheConnectionBeforeProvesNothing", callOfTheConnectionBeforeProvesNothing},
	{"HundredProofsInTenMinutes", hundredProofsInTenMinutes},
	{"ReconnectingThatDoesNotHelpStops", reconnectingThatDoesNotHelpStops},
	{"RestartThatFailsBeginsAnOutage", restartThatFailsBeginsAnOutage},
	{"RestartObeysThePolicyAndThePause", restartObeysThePolicyAndThePause},
	{"OutdatedTools", outdatedTools},
	{"ToolsBelongToTheLongestName", toolsBelongToTheLongestName},
	{"ForcedRetryRestarts", forcedRetryRestarts},
	{"RunningCallsAreBounded", runningCallsAreBounded},
}

func TestScenarios(t *testing.T) {
	for _, engine := range slices.Sorted(maps.Keys(engines)) {
		for _, s := range scenarios {
			t.Run(engine+"/"+s.name, func(t *testing.T) { s.run(&scenarioT{t, engine}) })
		}
	}
}

// script is the engine of the rendered plugin. It is fed through the plugin's hooks,
// and calls the client that OpenCode gives it.
type script struct{ sim *simulation }

func (e script) load(i *instance) {
	e.sim.t.Helper()
	promise := e.sim.call(e.sim.factory, e.input(i))
	if promise.State() != goja.PromiseStateFulfilled {
		e.sim.t.Fatalf("the plugin function did not return: %v", promise.Result())
	}
	i.hooks = promise.Result().ToObject(e.sim.vm)
	for _, name := range i.hooks.Keys() {
		if _, ok := goja.AssertFunction(i.hooks.Get(name)); !ok {
			e.sim.violated("A44: the hook %s is no function", name)
		}
	}
}

func (e script) prompt(i *instance) {
	if p := i.call("chat.message", object{}, object{}); p.State() == goja.PromiseStatePending {
		i.held = append(i.held, &heldPrompt{promise: p, since: e.sim.now, cold: i.answeredAt.IsZero()})
	}
	e.sim.checkHeld()
}

func (e script) event(i *instance, kind string, properties object) {
	i.hook("event", object{"event": object{"type": kind, "properties": properties}})
}

func (e script) version(i *instance, version string) {
	e.event(i, "session.updated", object{"info": object{"id": "ses_1", "version": version}})
}

func (e script) configure(i *instance, remotes map[string]bool) {
	config := object{}
	for name, remote := range remotes {
		if config[name] = (object{"type": "local"}); remote {
			config[name] = object{"type": "remote"}
		}
	}
	i.hook("config", object{"mcp": config})
}

func (e script) call(i *instance, id, tool, state, text string) {
	e.event(i, "message.part.updated", object{"part": object{"type": "tool", "id": id, "callID": "call_1", "tool": tool, "state": object{"status": state, "error": text}}})
}

func (e script) dispose(i *instance) { i.hook("dispose") }

func (e script) settle() { e.sim.jobs() }

func (e script) left() string {
	if left := e.sim.run(`globalThis[Symbol.for("mcp-reconnect/2")]`); !goja.IsUndefined(left) {
		return "the registry"
	}
	if n := len(e.sim.files.watchers); n != 0 {
		return fmt.Sprint(n, " watchers")
	}
	return ""
}

// parse is the body of an answer in its order: that of a Go map is another one each time.
func (e script) parse(body any) goja.Value {
	if body == nil {
		return goja.Undefined()
	}
	text, err := json.Marshal(body)
	if err != nil {
		e.sim.t.Fatal(err)
	}
	return e.sim.run("(" + string(text) + ")")
}

// input is what OpenCode passes to the plugin function.
func (e script) input(i *instance) goja.Value {
	vm := e.sim.vm
	options := func(call goja.FunctionCall) *goja.Object {
		o := call.Argument(0).ToObject(vm)
		if query, ok := o.Get("query").Export().(object); !ok || query["directory"] != strings.ReplaceAll(i.dir, "%", "%25") { // it is decoded twice
			e.sim.violated("rule 4: a call does not say its directory")
		}
		i.options = o
		return o
	}
	done := func() goja.Value {
		promise, resolve, _ := vm.NewPromise()
		e.sim.after(0, func() { resolve(object{"data": true}) })
		return vm.ToValue(promise)
	}
	mcp := vm.NewDynamicObject(guarded{e.sim, "client.mcp", map[string]goja.Value{
		"status": vm.ToValue(func(call goja.FunctionCall) goja.Value {
			options(call)
			promise, resolve, reject := vm.NewPromise()
			instead := i.status(func() {
				data := vm.NewObject()
				for _, name := range i.names() {
					// Defined, as JSON.parse does: a server may be called __proto__.
					status := vm.ToValue(object{"status": i.servers[name].state, "error": i.servers[name].reason})
					data.DefineDataProperty(name, status, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE)
				}
				resolve(object{"data": data})
			})
			switch {
			case instead == nil || instead.fails == "never":
			case instead.fails == "throws":
				panic(vm.ToValue("thrown"))
			case instead.fails == "rejects":
				reject("no")
			case instead.takes > 0:
				e.sim.after(instead.takes, func() { resolve(e.parse(instead.body)) })
			default:
				return e.parse(instead.body)
			}
			return vm.ToValue(promise)
		}),
		"connect": vm.ToValue(func(call goja.FunctionCall) goja.Value {
			name := options(call).Get("path").ToObject(vm).Get("name").String()
			promise, resolve, _ := vm.NewPromise()
			// true for success and failure alike
			if i.connect(name, func() { resolve(object{"data": true}) }) {
				panic(vm.ToValue("thrown"))
			}
			return vm.ToValue(promise)
		}),
	}})
	app := vm.NewDynamicObject(guarded{e.sim, "client.app", map[string]goja.Value{
		"log": vm.ToValue(func(call goja.FunctionCall) goja.Value {
			body := options(call).Get("body").Export().(object)
			i.logged(fmt.Sprint(body["level"]), fmt.Sprint(body["message"]))
			return done()
		}),
	}})
	tui := vm.NewDynamicObject(guarded{e.sim, "client.tui", map[string]goja.Value{
		"showToast": vm.ToValue(func(call goja.FunctionCall) goja.Value {
			body := options(call).Get("body").Export().(object)
			i.called("toast %v", body["message"])
			i.toasts = append(i.toasts, fmt.Sprintf("%v: %v", body["variant"], body["message"]))
			if e.sim.policy.Notify != "toast" {
				e.sim.violated("rule 4: a toast that nobody asked for")
			}
			return done()
		}),
	}})
	client := vm.NewDynamicObject(guarded{e.sim, "client", map[string]goja.Value{"mcp": mcp, "app": app, "tui": tui}})
	input := vm.NewObject()
	input.Set("client", client)
	input.Set("directory", i.dir)
	input.Set("serverUrl", i.serverURL)
	return input
}
