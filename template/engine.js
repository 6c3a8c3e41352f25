// ---- The engine --------------------------------------------------------------
//
// It knows no host. A host gives it functions, none of which may reject:
//
//   host.status()          a Map of server name -> {state, error}, or undefined for "no answer"
//   host.connect(name)     settles when the attempt is over; what it settles to does not count
//   host.serial            true if connects of a directory hold up each other: then each waits for
//                          the one before, without a slot
//   host.say(level, text, variant)  one line for people; worth a toast if it has a variant
//   host.url               of the server, for people, or null
//   host.closed            set by the engine when nothing may be said any more
//
// and tells it what happens through the functions of createEngine's result.
//
// A server that failed has a record, which is in one of these phases:
//
//   waiting   a timer is set for its next try
//   trying    from that timer to the status read that shows what came of it
//   parked    given up: tried every probe-interval while in use, or on a prompt
//   dormant   no timer: the instance is idle or paused, or the status could not be
//             read; the next status that is read plans anew
//   up        connected again, not yet for stable-after: its count of tries lives on
//   aside     neither failed nor connected, so none of our business: nothing is planned
//
// A server without a record is well, or was never seen to fail.

const LOOK_GAP = SHARED.constants.lookGap // events are looked at once in this time, however many there are (rule 10)
const WAKE_GAP = SHARED.constants.wakeGap // a parked server is woken once in this time (rule 13)
const READ_LIMIT = SHARED.constants.readLimit // a status read that takes longer is given up (rule 16)
const SLEEP = SHARED.constants.sleep // a timer this late means that the machine slept (rule 14)
const MISSING_TRIES = SHARED.constants.missingTries // for a command that does not exist (rule 15)
const SAVE_DELAY = 100 // what changes within this time is written at once (rule 18)
const SAVE_TRIES = 8 // where it cannot be written; the delay doubles
const STEER_DELAY = 100 // from a sign that control changed to the look at it (rule 19)

// What all copies of the plugin in this process share (rules 5 and 6): the
// engine that owns each directory, and the connects in flight. It exists only
// while an engine does.
const REGISTRY = Symbol.for("mcp-reconnect/1") // 1 is the shape of what is shared

function shared() {
  return (globalThis[REGISTRY] ??= { engines: new Map(), running: 0, queue: [], careful: false })
}

function dropSharedIfUnused() {
  const { engines, running, queue } = shared()
  if (engines.size === 0 && running === 0 && queue.length === 0) delete globalThis[REGISTRY]
}

// A slot is the permission for one connect, granted first come, first served.
function requestSlot() {
  const pool = shared()
  const slot = { held: false, released: false }
  slot.granted = new Promise((resolve) => (slot.grant = () => resolve((slot.held = true))))
  slot.release = () => {
    if (slot.released) return
    slot.released = true
    const queued = pool.queue.indexOf(slot)
    if (queued >= 0) pool.queue.splice(queued, 1)
    else pool.running--
    slot.grant() // whoever still waits for it sees that it is released
    grantSlots(pool)
  }
  pool.queue.push(slot)
  grantSlots(pool)
  return slot
}

function grantSlots(pool) {
  while (pool.queue.length > 0 && pool.running < (pool.careful ? 1 : SETTINGS.concurrency)) {
    pool.running++
    pool.queue.shift().grant()
  }
}

// Rule 15: after an error that says that the machine is overloaded, one connect at
// a time, until one succeeds.
function beCareful() {
  shared().careful = true
}

function stopBeingCareful() {
  const pool = shared()
  pool.careful = false
  grantSlots(pool)
}

// The delay before the next try of a server that was tried `tries` times in this outage.
function backoff(tries) {
  if (tries === 0) return jittered(SETTINGS.firstDelay)
  return jittered(Math.min(SETTINGS.maxDelay, SETTINGS.initialDelay * 2 ** (tries - 1)))
}

function jittered(ms) {
  return ms * (1 + SETTINGS.jitter * (2 * Math.random() - 1))
}

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

// Ends the engine of an older copy, perhaps of another version, and returns its connects in flight.
function succeed(engine) {
  try {
    return [...(engine?.dispose(true) ?? [])]
  } catch {
    return []
  }
}

// The time that passed, whatever is done to the clock on the wall.
function now() {
  return performance.now()
}

function createEngine(directory, host) {
  const born = now()
  const servers = new Map() // name -> record
  const previous = shared().engines.get(directory) // of the copy before, which this one succeeds
  const triedAt = new Map(previous?.triedAt) // name -> when it was tried last (rule 12: the least gap)
  const timers = new Set() // all that are set, for dispose
  const slots = new Set() // all that are requested or held, for dispose
  const connecting = new Map() // name -> {slot, settled}: the connects in flight, for the next owner
  let gone = false // disposed, or replaced by a newer copy: nothing happens any more (rule 7)
  let started = false // the instance has shown a sign of use (rule 2)
  let usedAt = -Infinity
  let lookedAt = -Infinity
  let lookTimer = null // set while a look is due
  let pollTimer = null // set while started and in use, between two reads
  let reading = null // the read under way
  let nextRead = null // the one that will start when that one ends
  const store = openStore(directory)
  const seen = new Map() // name -> {state, said, error, since}: the last status, for people
  let saveTimer = null // set while something is to be written
  let unsaved = 0 // how often in a row that failed
  let steerTimer = null // set while control is to be read
  let paused = false // nothing is planned (rule 19)
  let retriedAt = 0 // of the last retry that was asked for, by the clock on the wall
  let retrySeenAt = Infinity // when it was seen
  let stopWatching = () => {}
  let turn = null // settles when the last one in line for a connect is done, where that counts

  // -- Time. Timers keep no process alive (rule 7), and no error leaves one (rule 8).

  function after(ms, action) {
    if (gone) return undefined
    const due = Date.now() + ms
    const timer = setTimeout(async () => {
      timers.delete(timer)
      if (gone) return
      if (Date.now() - due > SLEEP) wokeUp()
      try {
        await action()
      } catch {}
    }, Math.ceil(ms)) // hosts cut fractions off
    timer?.unref?.()
    timers.add(timer)
    return timer
  }

  function cancel(timer) {
    clearTimeout(timer)
    timers.delete(timer)
  }

  function idle() {
    return now() - usedAt >= SETTINGS.idleAfter
  }

  // Rule 14: what failed while the machine slept failed for want of a network.
  function wokeUp() {
    for (const s of servers.values()) {
      if ((s.phase !== "waiting" && s.phase !== "parked") || !mayWake(s)) continue
      s.tries = 0
      move(s, "waiting", SETTINGS.firstDelay)
    }
  }

  // Rule 13: a prompt wakes what was given up.
  function wake() {
    for (const s of servers.values())
      if ((s.phase === "parked" || s.phase === "dormant") && mayWake(s)) move(s, "waiting", SETTINGS.firstDelay)
  }

  function mayWake(s) {
    if (now() - s.wokenAt < WAKE_GAP) return false
    s.wokenAt = now()
    return true
  }

  // -- Status

  // One read at a time (rule 16). A caller gets a read that starts no sooner than
  // its call, so the answer is never older than the question.
  function read() {
    if (!reading) return (reading = readNow())
    return (nextRead ??= reading.then(() => {
      nextRead = null
      return gone ? undefined : (reading ??= readNow())
    }))
  }

  async function readNow() {
    steer()
    cancel(pollTimer)
    let limit
    const givenUp = new Promise((resolve) => (limit = after(READ_LIMIT, resolve)))
    const answer = await Promise.race([host.status(), givenUp])
    cancel(limit)
    reading = null
    if (gone) return undefined
    if (answer) observe(answer)
    pollTimer = idle() ? null : after(SETTINGS.pollInterval, () => idle() || read())
    return answer
  }

  function look() {
    lookTimer ??= after(Math.max(0, lookedAt + LOOK_GAP - now()), () => {
      lookTimer = null
      lookedAt = now()
      read()
    })
  }

  function observe(answer) {
    show(answer)
    for (const s of servers.values()) if (s.phase !== "trying") judge(s, answer.get(s.name))
    for (const [name, { state, error }] of answer) {
      if (state !== "failed" || servers.has(name) || !concerns(name)) continue
      const s = { name, phase: "", timer: null, tries: 0, error, failedAt: now(), upAt: 0, aliveAt: 0, wokenAt: -Infinity, unconfirmed: false, announced: false }
      servers.set(name, s)
      retry(s)
    }
  }

  // What a status means for a server that has a record and no try under way.
  function judge(s, status) {
    const unconfirmed = s.unconfirmed // the last connect was ours, and what came of it is not known
    s.unconfirmed = unconfirmed && status?.state === "pending" // nor is it yet
    if (status?.state === "failed") {
      s.error = status.error
      if (s.phase === "waiting" || s.phase === "parked") return
      if (s.phase === "up") {
        // Rule 12: only a connection that was seen to last ends an outage.
        if (s.aliveAt - s.upAt >= SETTINGS.stableAfter) Object.assign(s, { tries: 0, announced: false, failedAt: now() })
      }
      return retry(s, s.phase === "dormant")
    }
    if (status?.state === "connected" && (s.phase === "up" || unconfirmed)) {
      if (unconfirmed) return isBack(s)
      s.aliveAt = now()
      if (s.aliveAt - s.upAt < SETTINGS.stableAfter) return
    }
    // Rule 12: connected for good, or without us, or disabled, or no longer configured.
    if (!status || status.state === "connected" || status.state === "disabled") return forget(s)
    move(s, "aside") // rule 1
  }

  // -- A server's schedule. move alone changes a phase and sets a server's timer (rule 9).

  function move(s, phase, delay) {
    cancel(s.timer)
    changed()
    s.dueAt = undefined
    if (delay === undefined) return (s.phase = phase)
    if (paused) return (s.phase = "dormant")
    s.phase = phase
    const gap = (triedAt.get(s.name) ?? -Infinity) + SETTINGS.firstDelay - now()
    s.dueAt = now() + Math.max(delay, gap)
    s.timer = after(Math.max(delay, gap), () => attempt(s))
  }

  function forget(s) {
    cancel(s.timer)
    servers.delete(s.name)
    changed()
  }

  // Plans the next try: after one that failed, after a connection that did not last,
  // or at the first sight of a failure; soon, if the last delay has passed unused.
  function retry(s, soon = false) {
    const overloaded = says(s.error, "overloaded") // rule 15
    if (overloaded) beCareful()
    const limit = says(s.error, "missing") ? Math.min(MISSING_TRIES, SETTINGS.maxAttempts) : SETTINGS.maxAttempts
    if (s.tries < limit) return move(s, "waiting", overloaded ? jittered(SETTINGS.maxDelay) : backoff(soon ? 0 : s.tries))
    move(s, "parked", jittered(SETTINGS.probeInterval))
    if (s.announced) return
    s.announced = true
    host.say("warn", `${s.name} is still failed after ${count(s.tries)}; it is now tried rarely, and on a prompt`, "warning")
  }

  async function attempt(s) {
    if (idle()) return move(s, "dormant") // what nobody uses costs nothing
    if (yieldsToRival()) return
    move(s, "trying")
    await connecting.get(s.name)?.settled // rule 5: one that the copy before us started
    const endTurn = host.serial ? await takeTurn() : undefined
    let slot, lease
    try {
      if (gone) return
      // Rule 3: the status is read before each connect, and once more by who had to
      // wait for a slot (rule 5). A read holds no slot for longer than a connect may.
      for (;;) {
        const before = await read()
        if (gone) return
        if (paused || before?.get(s.name)?.state !== "failed") return settle(s, before)
        if (slot && !slot.released) break
        slots.delete(slot)
        slots.add((slot = requestSlot()))
        if (slot.held) break
        await slot.granted
        if (gone) return
        cancel(lease)
        lease = after(SETTINGS.connectTimeout, slot.release)
      }
      s.tries++
      triedAt.set(s.name, now())
      cancel(lease)
      lease = after(SETTINGS.connectTimeout, slot.release)
      const settled = host.connect(s.name)
      connecting.set(s.name, { slot, settled })
      await settled // rule 5: however long it takes, no second connect meanwhile
      connecting.delete(s.name)
      if (gone) return
      slot.release()
      const outcome = await read() // rule 11
      if (gone) return
      settle(s, outcome, true)
    } finally {
      cancel(lease)
      slot?.release()
      slots.delete(slot)
      endTurn?.()
    }
  }

  // Waits until all who came before have ended their turns, and returns what ends ours.
  async function takeTurn() {
    const before = turn
    let end
    turn = new Promise((resolve) => (end = resolve))
    await before
    return end
  }

  // Ends a try by what the status says.
  function settle(s, answer, tried = false) {
    s.unconfirmed ||= tried
    // Rule 16: no answer is no failure; nothing is counted, nothing forgotten.
    if (!answer) return move(s, "dormant")
    judge(s, answer.get(s.name))
  }

  function isBack(s) {
    s.upAt = s.aliveAt = now()
    move(s, "up")
    stopBeingCareful()
    host.say("info", `${s.name} is back (${count(s.tries)}, ${((s.upAt - s.failedAt) / 1000).toFixed(1)} s)`, "success")
  }

  function count(tries) {
    return tries === 1 ? "1 try" : `${tries} tries`
  }

  // -- What the host tells

  // Rule 2. `kind` is "prompt", "busy" (another sign of use), "load", or "mcp", which
  // may name the server that it is about.
  function used(kind, name) {
    if (gone || yieldsToRival()) return
    if (!started) {
      if (SETTINGS.start === "mcp" && kind !== "mcp") return
      started = true
      host.say("info", `version ${VERSION} is active in ${directory}`)
      retriedAt = store.control().retry.at // what was asked of others
      stopWatching = store.watch(() => {
        // Bun tells of a temporary file and keeps silent of its renaming, if that
        // follows within 16 ms: what counts is what is there a while later.
        if (!gone) steerTimer ??= after(STEER_DELAY, steer)
      })
      steer()
      changed()
    }
    const s = servers.get(name)
    if (s?.phase === "up") s.aliveAt = now() // it was alive until it said so, or dropped
    const wasIdle = idle()
    // A crash is an mcp event: it must not keep an instance in use that nobody prompts.
    if (kind !== "mcp" || wasIdle) usedAt = now()
    if (kind === "prompt" || wasIdle) wake()
    if (kind === "prompt" || kind === "mcp" || wasIdle) look()
  }

  // -- State and control

  // Rule 18: written when something changed.
  function changed() {
    if (!gone) saveTimer ??= after(SAVE_DELAY * 2 ** unsaved, save)
  }

  function save() {
    saveTimer = null
    const saved = store.save({
      url: host.url,
      started,
      paused,
      retriedAt,
      servers: [...seen].map(([name, { state, error, since }]) => {
        const s = servers.get(name)
        const phase = s?.phase ?? (state === "failed" && !concerns(name) ? "skipped" : "")
        const tried = triedAt.get(name)
        return {
          name,
          status: typeof state === "string" && /^[\w-]{1,40}$/.test(state) ? state : "unknown",
          phase,
          tries: s?.tries ?? 0,
          retried: tried >= retrySeenAt, // a try began since the last retry
          error,
          since: wall(since),
          triedAt: wall(tried),
          dueAt: wall(s?.dueAt),
        }
      }),
    })
    unsaved = saved ? 0 : Math.min(unsaved + 1, SAVE_TRIES)
    if (!saved && unsaved < SAVE_TRIES) changed()
  }

  function wall(time) {
    return time === undefined ? null : Math.round(Date.now() + time - now())
  }

  function show(answer) {
    const before = new Map(seen)
    seen.clear()
    for (const [name, { state, error }] of answer) {
      const old = before.get(name)
      const same = old !== undefined && old.state === state // a state may be undefined
      if (same && (old.said === error || !error)) {
        seen.set(name, old)
        continue
      }
      const since = same ? old.since : now()
      seen.set(name, { state, said: error, error: error ? harmless(error) : (old?.error ?? ""), since })
      changed()
    }
    if (seen.size !== before.size) changed()
  }

  // Rule 19. Called when the file may have changed, and before each status read, so
  // that a pause counts even where no change is told.
  function steer() {
    cancel(steerTimer)
    steerTimer = null
    const control = store.control()
    if (control.paused !== paused) {
      paused = control.paused
      changed()
      if (paused) {
        for (const s of servers.values()) if (s.phase === "waiting" || s.phase === "parked") move(s, "dormant")
      } else {
        wake()
        look()
      }
    }
    const { at, servers: names, directories } = control.retry
    if (at <= retriedAt) return
    retriedAt = at
    retrySeenAt = now()
    changed()
    const asked = (list, name) => list.length === 0 || list.includes(name)
    if (!asked(directories, directory)) return
    if (names.length > 0 && seen.size > 0 && !names.some((name) => seen.has(name))) return
    usedAt = now() // somebody waits for it
    for (const s of servers.values()) {
      if (!asked(names, s.name)) continue
      // Not bound to rule 13's minute: it is no loop that asks. A try under way counts.
      Object.assign(s, { tries: connecting.has(s.name) ? 1 : 0, announced: false, failedAt: now() })
      if (s.phase === "waiting" || s.phase === "parked" || s.phase === "dormant") move(s, "waiting", 0)
    }
    look()
  }

  // Rule 6: two products would restart each other's servers.
  function yieldsToRival() {
    if (!globalThis.__openchamberMcpReconnectCoordinator) return false
    host.say("info", `quiet in ${directory}, where OpenChamber's own plugin reconnects`)
    dispose()
    return true
  }

  // Returns the connects in flight. Their slots are kept for a successor, which
  // owns the same servers; without one they are given back, since OpenCode ends the
  // connects of an instance with it.
  function dispose(succeeded = false) {
    if (gone) return connecting
    gone = host.closed = true
    for (const timer of timers) clearTimeout(timer)
    timers.clear()
    stopWatching()
    for (const slot of slots) if (!succeeded || !inFlight(slot)) slot.release()
    servers.clear()
    store.remove()
    if (shared().engines.get(directory) === engine) shared().engines.delete(directory)
    dropSharedIfUnused()
    return connecting
  }

  function inFlight(slot) {
    return [...connecting.values()].some((connect) => connect.slot === slot)
  }

  const engine = { used, dispose, after, triedAt, age: () => now() - born }
  // Rule 6: the newest owns the directory, and what the one before has begun (rule 5).
  const begun = succeed(previous)
  turn = Promise.all(begun.map(([, connect]) => connect.settled))
  for (const [name, connect] of begun) {
    connecting.set(name, connect)
    slots.add(connect.slot)
    after(SETTINGS.connectTimeout, connect.slot.release)
    connect.settled.then(() => {
      slots.delete(connect.slot)
      if (connecting.get(name) === connect) connecting.delete(name)
    })
  }
  if (shared().engines.size === 0) store.sweep()
  shared().engines.set(directory, engine)
  save()
  return engine
}
