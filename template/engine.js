// ---- The engine --------------------------------------------------------------
//
// It is pure, and package reconnect is the same in Go: what happened and the time go in,
// in milliseconds of a clock that never goes back, and actions come out. It sets no timer,
// and talks to nobody. Its host calls its functions one at a time. After each call, it
// runs every function of pool.pending, which is to do what actions() returns, in that
// order, and to call advance at the time that next() gives.
//
//   {do: "status"}                read the status of all servers, and pass it to read: a Map of
//                                 server name -> {state, error}, or undefined for "no answer"
//   {do: "connect", server}       connect the server once, and call settled when that is over
//   {do: "log", level, text, server}  a line for people; without a server: that the engine acts
//   {do: "show"}                  what servers() returns has changed
//
// A server that failed, or that is to be restarted, has a record, which is in one of the
// phases that SHARED explains.
// A server without a record is well, or was never seen to fail.

const { lookGap: LOOK_GAP, wakeGap: WAKE_GAP, readLimit: READ_LIMIT, missingTries: MISSING_TRIES } = SHARED.constants

// Whether the policy's patterns leave the server to the engine.
function concerns(name) {
  const { only, skip } = SETTINGS
  return (only.length === 0 || only.some((p) => matches(p, name))) && !skip.some((p) => matches(p, name))
}

// Whether a pattern, in which * stands for any text and ? for any character, is
// the name. It goes back to the last * alone, so that no pattern takes long.
function matches(pattern, name) {
  const [ps, ns] = [[...pattern], [...name]]
  let [p, n, star, from] = [0, 0, -1, 0]
  while (n < ns.length) {
    if (ps[p] === "*") [star, from] = [p++, n]
    else if (ps[p] === "?" || ps[p] === ns[n]) [p, n] = [p + 1, n + 1]
    else if (star >= 0) [p, n] = [star + 1, ++from]
    else return false
  }
  return ps.slice(p).every((c) => c === "*")
}

// The least time from one start of a server to the next, for a count of tries (rule 12).
function backoff(count) {
  return count === 0 ? 0 : Math.min(SETTINGS.maxDelay, SETTINGS.initialDelay * 2 ** (count - 1))
}

// A delay with its random part, in whole milliseconds.
function jittered(ms, random = Math.random) {
  return Math.round(ms * (1 + SETTINGS.jitter * (2 * random() - 1)))
}

function tries(n) {
  return n === 1 ? "1 try" : `${n} tries`
}

// Options:
//   pump      what is put into pool.pending
//   random    in [0, 1), for the jitter
//   serial    connects of a directory hold up each other: each waits for the one before,
//             without a slot
//   before    what close(true) returned of the engine that this one succeeds (rules 5, 6)
function createEngine(pool, born, { pump, random = Math.random, serial = false, before } = {}) {
  let now = born // of the call that is under way
  let gone = false // nothing happens any more (rule 7)
  let started = false // the instance has shown a sign of use (rule 2)
  let paused = false // nothing is planned (rule 19)
  let answered = false // a status read has ended, with or without an answer
  const news = { told: 0, asked: 0, known: 0 } // mcp events: so far, before the read under way, and before the last one that ended
  let usedAt = -Infinity
  let lookedAt = -Infinity
  let retriedAt = Infinity // when the last retry was asked for
  const records = new Map() // name -> record, in the order of their first failure
  const triedAt = new Map(before?.triedAt) // name -> when it was started last (rule 12)
  const adopted = new Map() // name -> {slot, lease}: the connects in flight of the engine before (rule 5)
  const seen = new Map() // name -> sighting: the last status, for people, and what calls said
  const calls = createCalls()
  let remotes // names of the servers that are reached over a network, once that is known (rule 20)
  let noticesDeaths = false // OpenCode notices by itself that a local server is gone
  const timers = new Set() // {at, order, action}
  let order = 0 // of the last timer
  let look = null // the timer, while a look is due
  let poll = null // the timer, while started and in use, between two reads
  let limit = null // the timer of the read under way
  let reading = null // the read under way: the records that wait for its answer
  let next = null // the one that will start when that one ends
  let line = [] // records whose turn has not come, where connects are serial or adopted
  let actions = []

  // Does what a call of the host's asks for, and what follows from it.
  function input(at, action) {
    if (gone) return
    now = at
    pool.pending.add(pump)
    action()
    continueGranted(pool, now)
  }

  function changed() {
    if (!actions.some((a) => a.do === "show")) actions.push({ do: "show" })
  }

  // -- Time

  function after(ms, action) {
    const timer = { at: now + Math.max(0, ms), order: ++order, action }
    timers.add(timer)
    return timer
  }

  function cancel(timer) {
    timers.delete(timer)
  }

  function firstTimer() {
    let first
    for (const t of timers) if (!first || t.at < first.at || (t.at === first.at && t.order < first.order)) first = t
    return first
  }

  // Does what is due, up to what makes the host act: that comes first, and next() says
  // that there is more.
  function advance(at) {
    const acted = actions.length
    for (let t = firstTimer(); t && t.at <= at && actions.length === acted; t = firstTimer()) {
      cancel(t)
      input(at, t.action)
    }
  }

  function idle() {
    return now - usedAt >= SETTINGS.idleAfter
  }

  // Rule 14: what failed while the machine slept failed for want of a network.
  function wokeUp() {
    for (const s of records.values()) {
      if ((s.phase !== "waiting" && s.phase !== "parked") || !mayWake(s)) continue
      s.count = 0
      plan(s, "waiting", SETTINGS.firstDelay)
    }
  }

  // Rule 13: tries what was given up: now, or when the minute is over.
  function wake() {
    for (const s of records.values()) {
      if ((s.phase !== "parked" && s.phase !== "dormant") || s.cause) continue
      if (!paused && mayWake(s)) {
        plan(s, "waiting", SETTINGS.firstDelay)
        continue
      }
      s.wanted = true
      if (s.phase === "parked") plan(s, "parked", Math.min(s.timer.at - now, untilAwake(s)))
    }
  }

  function mayWake(s) {
    if (untilAwake(s) > 0) return false
    s.wokenAt = now
    s.wanted = false
    return true
  }

  // How long it takes until the server may be woken again.
  function untilAwake(s) {
    return s.wokenAt + WAKE_GAP - now
  }

  // -- Status

  // Asks for a status for s, or for nobody: one read at a time (rule 16), and one that
  // starts no sooner than it is asked for, so that the answer is never older than the question.
  function read(s) {
    let waiting
    if (!reading) waiting = startRead()
    else waiting = next ??= []
    if (s) waiting.push(s)
  }

  function startRead() {
    cancel(poll)
    reading = []
    news.asked = news.told
    limit = after(READ_LIMIT, () => gotStatus(undefined))
    actions.push({ do: "status" })
    return reading
  }

  function gotStatus(answer) {
    cancel(limit)
    const done = reading
    reading = null
    answered = true
    news.known = news.asked
    if (answer) observe(answer)
    poll = idle() ? null : after(SETTINGS.pollInterval, () => idle() || read())
    for (const s of done) goOn(s, answer)
    if (!next) return
    const waiting = next
    next = null
    if (!reading) startRead() // else one of those has started it
    reading.push(...waiting)
  }

  // Reads the status, once for all events of a second (rule 10).
  function lookSoon() {
    look ??= after(lookedAt + LOOK_GAP - now, () => {
      look = null
      lookedAt = now
      read()
    })
  }

  function observe(answer) {
    show(answer)
    for (const s of [...records.values()]) if (s.phase !== "trying") judge(s, answer)
    for (const name of [...answer.keys()].sort()) {
      const { state, error } = answer.get(name)
      if (state !== "failed" || records.has(name) || !concerns(name)) continue
      const s = newRecord(name)
      s.error = error
      retry(s)
    }
  }

  // What a status means for a server that has a record and no try under way.
  function judge(s, answer) {
    const status = answer.get(s.name)
    const connected = status?.state === "connected"
    const unconfirmed = s.unconfirmed
    s.unconfirmed = unconfirmed && status?.state === "pending" // nor is it yet
    if (status?.state === "failed") {
      s.error = status.error
      s.cause = s.reason = ""
      if (s.phase === "waiting" || s.phase === "parked") return
      if (s.phase === "up") settleCount(s)
      retry(s)
    } else if (connected && unconfirmed) {
      isBack(s)
    } else if (connected && s.cause) {
      if (!s.timer) planRestart(s) // which is still to come
    } else if (connected && (s.phase === "outdated" || (s.phase === "up" && stillCounts(s)))) {
      return
    } else if (connected || !status || status.state === "disabled") {
      forget(s) // rule 12: connected for good, or without us, or disabled, or no longer configured
    } else {
      s.cause = ""
      move(s, "aside") // rule 1
    }
  }

  // Notes that the server is alive, and returns whether its tries still count.
  function stillCounts(s) {
    s.aliveAt = now
    return left(s) > 0
  }

  // What is left of the count of tries. While the server is connected it goes down by one in
  // every sixth of stable-after, and to nothing after all of it (rule 12), as far as the
  // connection is known to have lived.
  function left(s) {
    if (s.phase !== "up") return s.count
    const lived = s.aliveAt - s.upAt
    if (lived >= SETTINGS.stableAfter) return 0
    return Math.max(0, s.count - (6 * lived) / SETTINGS.stableAfter)
  }

  // The connection of s has ended: its count stays as it is. With nothing left, what follows is another outage.
  function settleCount(s) {
    s.count = left(s)
    if (s.count === 0) Object.assign(s, { announced: false, keptWaiting: false, outageAt: now, tries: 0 })
  }

  // -- A server's schedule. move alone changes a phase, plan alone sets a server's timer (rule 9).

  function move(s, phase) {
    cancel(s.timer)
    s.timer = null
    s.phase = phase
    changed()
  }

  function plan(s, phase, delay) {
    if (paused) return move(s, "dormant")
    move(s, phase)
    const gap = (triedAt.get(s.name) ?? -Infinity) + SETTINGS.firstDelay - now
    s.timer = after(Math.max(delay, gap), () => attempt(s))
  }

  function forget(s) {
    cancel(s.timer)
    records.delete(s.name)
    if (!seen.get(s.name)?.configured) seen.delete(s.name)
    changed()
  }

  function newRecord(name) {
    const s = {
      name, phase: "", timer: null, attempt: null, error: "",
      count: 0, // of tries, for the back-off: as it was when the server was connected last (rule 12)
      upAt: 0, // since when it is connected
      aliveAt: 0, // when it was known to be up last
      cause: "", // why it is to be restarted though it is connected: dead, outdated or forced
      reason: "", // the cause of the last try
      wokenAt: -Infinity,
      wanted: false, // it was asked for within the minute after wokenAt (rule 13)
      unconfirmed: false, // the last connect was ours, and what came of it is not known
      announced: false, // that it is parked (rule 13)
      keptWaiting: false, // a prompt waited for it in vain (rule 21)
      outageAt: now, // for people, as the next; an outage ends when the count has gone down to nothing
      tries: 0, // in it
    }
    records.set(name, s)
    return s
  }

  // Plans the next try: after one that failed, after a connection that did not last, or at
  // the first sight of a failure. Back-off is the least time between two starts (rule 12).
  function retry(s) {
    const overloaded = says(s.error, "overloaded") // rule 15
    if (overloaded) pool.careful = true
    const wanted = s.wanted ? Math.max(untilAwake(s), SETTINGS.firstDelay) : Infinity
    const limit = says(s.error, "missing") ? Math.min(MISSING_TRIES, SETTINGS.maxAttempts) : SETTINGS.maxAttempts
    if (s.count >= limit) {
      const delay = jittered(SETTINGS.probeInterval, random)
      plan(s, "parked", Math.min(delay, wanted))
      if (s.announced) return
      s.announced = true
      say(s.name, "warn", `${s.name} is still failed after ${tries(s.tries)}; it is now tried rarely, and on a prompt`)
    } else if (overloaded) {
      plan(s, "waiting", jittered(SETTINGS.maxDelay, random))
    } else {
      const delay = jittered(SETTINGS.firstDelay, random)
      const gap = jittered(backoff(s.count), random)
      const due = gap > 0 ? Math.max(delay, triedAt.get(s.name) + gap - now) : delay
      plan(s, "waiting", Math.min(due, wanted))
    }
  }

  // -- A try waits, in this order, for its turn, for a read (rule 3), perhaps for a slot and
  // another read (rule 5), for its connect, and for the read that shows what came of it (rule 11).

  function attempt(s) {
    if (idle()) return move(s, "dormant") // what nobody uses costs nothing
    if (s.wanted) mayWake(s)
    move(s, "trying")
    s.attempt = { slot: null, lease: null, connected: false, settled: false }
    line.push(s)
    takeTurns()
  }

  // Begins the tries whose turn has come.
  function takeTurns() {
    for (const s of line) {
      const busy = serial && (adopted.size > 0 || [...records.values()].some((other) => other.attempt?.begun))
      if (busy || adopted.has(s.name)) continue
      s.attempt.begun = true
      read(s)
    }
    line = line.filter((s) => !s.attempt.begun)
  }

  // Goes on with a try after a read that it waited for.
  function goOn(s, answer) {
    const t = s.attempt
    const state = answer?.get(s.name)?.state
    if (t.settled || paused || (state !== "failed" && !(state === "connected" && s.cause))) {
      settle(s, answer)
      endLease(s)
      s.attempt = null
      takeTurns()
    } else if (t.slot && !t.slot.released) {
      connect(s, state)
    } else {
      // A read holds no slot for longer than a connect may: who had to wait for a slot
      // reads once more, and asks for another slot if that took too long.
      t.slot = requestSlot(pool, (at) => input(at, () => granted(s)))
      if (t.slot.held) connect(s, state)
    }
  }

  // Goes on with a try that waited for its slot.
  function granted(s) {
    lease(s)
    read(s)
  }

  // Starts a server that is failed, or one that is connected and has a cause.
  function connect(s, state) {
    s.reason = state === "connected" ? s.cause : ""
    if (s.reason && s.reason !== "forced") {
      const it = seen.get(s.name)
      it.restartedAt = now
      it.restarts++
    }
    s.cause = ""
    s.tries++
    // One more than parks it is enough: however long it was broken, a life of a sixth of
    // stable-after is a beginning.
    s.count = Math.min(s.count + 1, SETTINGS.maxAttempts + 1)
    triedAt.set(s.name, now)
    s.attempt.connected = true
    lease(s)
    changed()
    actions.push({ do: "connect", server: s.name })
  }

  // The connect of the server is over, perhaps one that the engine before has begun.
  function settled(name) {
    const left = adopted.get(name)
    if (left) {
      adopted.delete(name)
      cancel(left.lease)
      releaseSlot(pool, left.slot)
      reconnected(name)
      takeTurns()
      return
    }
    const s = records.get(name)
    if (!s?.attempt?.connected || s.attempt.settled) return
    s.attempt.settled = true
    endLease(s)
    reconnected(name)
    read(s) // rule 11
  }

  // What was called before says nothing of the connection that there is now (rule 20).
  function reconnected(name) {
    const it = seen.get(name)
    if (it) it.connectedAt = now
  }

  function lease(s) {
    const { slot } = s.attempt
    cancel(s.attempt.lease)
    s.attempt.lease = after(SETTINGS.connectTimeout, () => releaseSlot(pool, slot))
  }

  function endLease(s) {
    cancel(s.attempt.lease)
    if (s.attempt.slot) releaseSlot(pool, s.attempt.slot)
  }

  // Ends a try by what the status says.
  function settle(s, answer) {
    s.unconfirmed ||= s.attempt.settled
    // Rule 16: no answer is no failure; nothing is counted, nothing forgotten.
    if (!answer) return move(s, "dormant")
    judge(s, answer)
  }

  function isBack(s) {
    s.upAt = s.aliveAt = now
    move(s, "up")
    stopBeingCareful(pool)
    const took = ((now - s.outageAt) / 1000).toFixed(1)
    say(s.name, "info", `${s.name} is back (${SHARED.reasons[s.reason] ?? ""}${tries(s.tries)}, ${took} s)`)
  }

  function say(server, level, text) {
    actions.push({ do: "log", level, text, server })
  }

  // -- What the host tells

  // Rule 2. `use` is "prompt", "busy" (another sign of use), "load", "asked" (somebody names
  // the directory), or "mcp", which may name the server that it is about.
  function used(use, name) {
    if (!started) {
      if (SETTINGS.start === "mcp" && use !== "mcp" && use !== "asked") return
      started = true
      say(undefined, "info", "active")
      changed()
    }
    if (use === "mcp") news.told++
    const s = records.get(name)
    if (s?.phase === "up") s.aliveAt = now // it was alive until it said so, or dropped
    else if (s && use === "mcp") disprove(s) // its connection has ended, or OpenCode reads its tools anew
    const wasIdle = idle()
    // A crash is an mcp event: it must not keep an instance in use that nobody prompts.
    if (use !== "mcp" || wasIdle) usedAt = now
    if (use === "prompt" || wasIdle) wake()
    if (use === "prompt" || use === "mcp" || wasIdle) lookSoon()
  }

  // Rule 19.
  function pause(on) {
    if (on === paused) return
    paused = on
    changed()
    if (!on && started) {
      wake()
      lookSoon()
    }
    if (!on) return
    for (const s of [...records.values()]) {
      if (s.phase === "dead") forget(s) // by then, who knows: the next call proves it anew
      else s.cause = ""
      if (s.timer) move(s, "dormant")
    }
  }

  // Rule 19: forgets the back-off of the servers, of all if none is named, and tries them
  // now. Those in force are restarted if they are connected. An instance that is not in use
  // stays so (rule 2).
  function retryNow(names, force) {
    if (!started) return
    retriedAt = now
    changed()
    const known = (name) => seen.has(name) && seen.get(name).configured
    if (names.length > 0 && seen.size > 0 && !names.some(known)) return // it is about other instances
    usedAt = now // somebody waits for it
    for (const name of force) if (known(name)) forceOne(name)
    for (const s of records.values()) {
      if (names.length > 0 && !names.includes(s.name)) continue
      // Not bound to rule 13's minute: it is no loop that asks. A try under way counts.
      s.count = adopted.has(s.name) || (s.attempt?.connected && !s.attempt.settled) ? 1 : 0
      s.announced = false
      if (s.phase === "waiting" || s.phase === "parked" || s.phase === "dormant") plan(s, "waiting", 0)
    }
    lookSoon()
  }

  // Has a server restarted that is connected, because somebody names it.
  function forceOne(name) {
    if (!concerns(name) || paused) return
    let s = records.get(name)
    if (!s && seen.get(name).state === "connected") {
      s = newRecord(name)
      move(s, "dormant")
    }
    if (!s || s.attempt?.connected) return // it is switched off, say; or being started
    if (s.phase === "up" || s.phase === "outdated" || s.phase === "dead") {
      move(s, "dormant")
      s.outageAt = now // which somebody makes
      s.tries = 0
    }
    s.cause = "forced"
  }

  // Rule 20: what became of a call of a tool: {id, tool, state, text}. One that proves that
  // its server's connection is dead, or that the tools that OpenCode offers are out of
  // date, has the server restarted.
  function called({ id, tool, state, text }) {
    if (SETTINGS.restartDead === "off") return
    const server = ownerOf(tool)
    if (state === "pending" || state === "running") {
      if (server === undefined) calls.end(id) // it turned out to be nobody's
      else calls.begin(id, server, now)
      return
    }
    const call = calls.end(id)
    if (!call || call.server !== server) return
    const { connectedAt, prefix } = seen.get(server)
    // One of the connection before says nothing.
    const cause = call.began >= connectedAt ? provenBy(server, state, text, tool.slice(prefix.length)) : ""
    if (cause === "alive") answers(server)
    const s = records.get(server)
    if ((cause === "dead" || cause === "outdated") && !s?.cause) doubt(server, cause, text)
    else if (s?.cause && s.timer && !calls.of(server, connectedAt)) planRestart(s) // which waited for this one's end
  }

  // What the end of a call proves of its server: that it is alive, that its connection is
  // dead, that its tools are outdated, or nothing. What a network says, only a remote
  // server's transport says: of a local one it is a tool's own word.
  function provenBy(server, state, text, tool) {
    const remote = remotes?.has(server)
    if (state !== "error" && state !== "completed") return ""
    if (deniesTool(text, tool)) return "outdated"
    if (state === "completed") return "alive"
    if (remote ? says(text, "unreachable") || says(text, "dead") : says(text, "dead") && !noticesDeaths) return "dead"
    if (says(text, "ended")) lookSoon() // it was closed, perhaps by who connects it anew
    return ""
  }

  // The server whose tool has the id: the one with the longest name that fits. None for
  // what OpenCode itself offers, and where two names have one id.
  function ownerOf(tool) {
    let owner
    let longest = -1
    for (const [name, { configured, prefix }] of seen) {
      if (!configured || prefix.length < longest || !tool.startsWith(prefix)) continue
      owner = prefix.length === longest ? undefined : name
      longest = prefix.length
    }
    return owner
  }

  // A call of the server completed: whatever was thought of its connection, it is alive.
  // That says nothing of its other tools.
  function answers(server) {
    Object.assign(seen.get(server), { answeredAt: now, restarts: 0, helpless: false })
    const s = records.get(server)
    if (s?.cause === "dead") disprove(s)
  }

  // What calls said of the server holds no more.
  function disprove(s) {
    if (s.cause === "forced" || (!s.cause && s.phase !== "outdated")) return
    if (s.phase === "trying") s.cause = ""
    else forget(s)
  }

  // Deals with the proof that a server that is called connected needs a restart.
  function doubt(server, cause, text) {
    const it = seen.get(server)
    let s = records.get(server)
    if (it.state !== "connected" || !concerns(server) || paused) return lookSoon() // it goes its usual way
    if (s && s.phase !== "up" && s.phase !== "outdated") return // a try or a restart is under way, or planned
    if (it.restarts >= SETTINGS.maxAttempts) {
      if (!it.helpless) say(server, "warn", `${server}: reconnecting does not help; it is left alone until one of its calls completes`)
      it.helpless = true
      return
    }
    Object.assign(it, { said: text, error: harmless(text) })
    if (cause === "outdated" && !remotes?.has(server)) {
      // Its restart may lose what it holds.
      if (s?.phase === "outdated") return
      move((s ??= newRecord(server)), "outdated")
      say(server, "warn", `${server}: OpenCode offers tools that the server no longer has; mcp-reconnect retry --force ${server} restarts it`)
      return
    }
    if (s) settleCount(s)
    else s = newRecord(server)
    s.cause = cause
    planRestart(s)
    lookSoon()
  }

  // Plans the restart of a connected server that has a cause: when its other calls have
  // ended, but not much later, and once a minute unless one completed in between.
  function planRestart(s) {
    if (s.cause === "forced") return plan(s, "waiting", 0)
    const { restartedAt, answeredAt, connectedAt } = seen.get(s.name)
    let delay = calls.of(s.name, connectedAt) ? SETTINGS.connectTimeout : 0
    if (answeredAt <= restartedAt) delay = Math.max(delay, restartedAt + WAKE_GAP - now)
    plan(s, s.cause, delay)
  }

  // Rule 21: whether a server may be back while a prompt waits that came when so many
  // events of MCP had been told. As long as no status was read since, any may.
  function soon(at, told) {
    if (!started || paused || gone) return false
    if (!answered || told > news.known) return true
    return [...records.values()].some((s) => mayBeBack(s, at))
  }

  function mayBeBack(s, at) {
    // One that has failed twice is not there soon; to be restarted is no failure.
    if (s.keptWaiting || (s.count > (s.phase === "trying" ? 2 : 1) && !s.cause && !s.reason)) return false
    return s.phase === "trying" || (s.timer !== null && s.phase !== "parked" && s.timer.at - at < SETTINGS.holdPrompt)
  }

  // A prompt waited in vain for what may be back: no other one does in this outage.
  function keptWaiting(at) {
    for (const s of records.values()) if (mayBeBack(s, at)) s.keptWaiting = true
  }

  // -- What the host is told

  // Keeps what a status says for people.
  function show(answer) {
    for (const [name, { state, error }] of answer) {
      let it = seen.get(name)
      if (!it) {
        it = {
          configured: false, state: undefined, said: "", error: "", since: now,
          prefix: toolID(name) + "_", // what the ids of its tools begin with
          connectedAt: -Infinity, // when a connect of ours was over: a call that began before says nothing of it
          answeredAt: -Infinity, // when a call completed
          restartedAt: -Infinity, // when it was restarted for what calls said
          restarts: 0, // such ones in a row, without a call that completed
          helpless: false, // that these do not help was said
        }
        seen.set(name, it)
      }
      if (it.configured && it.state !== "connected" && state === "connected") it.connectedAt = now // by whomever
      if (!it.configured || it.state !== state) Object.assign(it, { configured: true, state, since: now })
      else if (it.said === error || !error) continue
      if (error && it.said !== error) it.error = harmless(error)
      it.said = error
      changed()
    }
    for (const [name, it] of seen) {
      if (answer.has(name)) continue
      changed()
      if (records.has(name)) it.configured = false
      else seen.delete(name)
    }
  }

  // What is known of the servers, for people (rule 18).
  function servers() {
    const list = []
    for (const [name, { configured, state, error, since }] of seen) {
      if (!configured) continue // it vanished during a try
      const s = records.get(name)
      const skipped = !concerns(name)
      const tried = triedAt.get(name)
      list.push({
        name,
        status: typeof state === "string" && /^[A-Za-z0-9_-]{1,40}$/.test(state) ? state : "unknown",
        phase: s?.phase ?? (skipped && state === "failed" ? "skipped" : ""),
        tries: s ? Math.ceil(left(s)) : 0,
        skipped,
        retried: tried >= retriedAt, // a try began since the last retry
        error,
        since,
        triedAt: tried,
        dueAt: s?.timer?.at,
      })
    }
    return list
  }

  // Rule 7. With a successor, which owns the same servers, the slots of the connects in
  // flight are kept for it; without one they are given back, since OpenCode ends the
  // connects of an instance with it.
  function close(succeeded) {
    const connects = new Map()
    for (const [name, { slot }] of adopted) connects.set(name, slot)
    for (const s of records.values()) if (s.attempt?.connected && !s.attempt.settled) connects.set(s.name, s.attempt.slot)
    const kept = new Set(succeeded ? connects.values() : [])
    const held = [...[...records.values()].map((s) => s.attempt?.slot), ...connects.values()]
    gone = true
    for (const slot of held) if (slot && !kept.has(slot)) releaseSlot(pool, slot)
    timers.clear()
    records.clear()
    pool.pending.delete(pump)
    return { triedAt, connects }
  }

  for (const [name, slot] of before?.connects ?? []) {
    adopted.set(name, { slot, lease: after(SETTINGS.connectTimeout, () => releaseSlot(pool, slot)) })
  }

  return {
    used: (at, use, name) => input(at, () => used(use, name)),
    read: (at, answer) => input(at, () => reading && gotStatus(answer)),
    settled: (at, name) => input(at, () => settled(name)),
    called: (at, call) => input(at, () => called(call)),
    configured: (at, names) => input(at, () => (remotes = new Set(names))),
    noticesDeaths: (at) => input(at, () => (noticesDeaths = true)),
    pause: (at, on) => input(at, () => pause(on)),
    retry: (at, names, force) => input(at, () => retryNow(names, force)),
    wokeUp: (at) => input(at, wokeUp),
    advance,
    next: () => firstTimer()?.at,
    actions: () => {
      const done = actions
      actions = []
      pool.pending.delete(pump)
      return done
    },
    servers,
    soon,
    keptWaiting,
    told: () => news.told,
    answered: () => answered,
    close: (at, succeeded) => {
      now = at
      const left = close(succeeded)
      continueGranted(pool, at)
      return left
    },
  }
}
