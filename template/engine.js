// ---- The engine --------------------------------------------------------------
//
// It knows no host. A host gives it functions, none of which may reject:
//
//   host.status()          a Map of server name -> {state, error}, or undefined for "no answer"
//   host.connect(name)     settles when the attempt is over; what it settles to does not count
//   host.say(level, text, variant)  one line for people; worth a toast if it has a variant
//
// and tells it what happens through the functions of createEngine's result.
//
// A server that failed has a record, which is in one of these phases:
//
//   waiting   a timer is set for its next try
//   trying    from that timer to the status read that shows what came of it
//   parked    given up: tried every probe-interval while in use, or on a prompt
//   up        connected again, not yet for stable-after: its count of tries lives on
//   aside     neither failed nor connected, so none of our business: nothing is planned
//
// A server without a record is well, or was never seen to fail.

const LOOK_GAP = 1_000 // events are looked at once in this time, however many there are (rule 10)
const WAKE_GAP = 60_000 // a parked server is woken once in this time (rule 13)
const READ_LIMIT = 180_000 // a status read that takes longer is given up (rule 16)
const SLEEP = 30_000 // a timer this late means that the machine slept (rule 14)
const MISSING_TRIES = 3 // for a command that does not exist (rule 15)

const OVERLOADED = /\b(EAGAIN|EMFILE|ENFILE|ENOMEM)\b/
const MISSING = /\b(ENOENT|EACCES)\b.*spawn|spawn.*\b(ENOENT|EACCES)\b|Executable not found/

// What all copies of the plugin in this process share (rules 5 and 6): the
// engine that owns each directory, and the connects in flight. It exists only
// while an engine does.
const SHARED = Symbol.for("mcp-reconnect")

function shared() {
  return (globalThis[SHARED] ??= { engines: new Map(), running: 0, queue: [], careful: false })
}

function dropSharedIfUnused() {
  const { engines, running, queue } = shared()
  if (engines.size === 0 && running === 0 && queue.length === 0) delete globalThis[SHARED]
}

// A slot is the permission for one connect, granted first come, first served.
function requestSlot() {
  const pool = shared()
  const slot = { released: false }
  slot.granted = new Promise((grant) => (slot.grant = grant))
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

const ONLY = SETTINGS.only.map(matcher)
const SKIP = SETTINGS.skip.map(matcher)

function matcher(pattern) {
  const literal = pattern.replace(/[.+^${}()|[\]\\\/]/g, "\\$&")
  return new RegExp("^" + literal.replace(/\*/g, ".*").replace(/\?/g, ".") + "$", "su")
}

function concerns(name) {
  return (ONLY.length === 0 || ONLY.some((p) => p.test(name))) && !SKIP.some((p) => p.test(name))
}

// The time that passed, whatever is done to the clock on the wall.
function now() {
  return performance.now()
}

function createEngine(directory, host) {
  const born = now()
  const servers = new Map() // name -> record
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

  // -- Time. Timers keep no process alive (rule 7), and no error leaves one (rule 8).

  function after(ms, action) {
    const due = Date.now() + ms
    const timer = setTimeout(() => {
      timers.delete(timer)
      if (gone) return
      if (Date.now() - due > SLEEP) wokeUp()
      try {
        action()
      } catch {}
    }, ms)
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
  function wakeParked() {
    for (const s of servers.values()) if (s.phase === "parked" && mayWake(s)) move(s, "parked", SETTINGS.firstDelay)
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
    cancel(pollTimer)
    let limit
    const givenUp = new Promise((resolve) => (limit = after(READ_LIMIT, resolve)))
    const answer = await Promise.race([host.status(), givenUp])
    cancel(limit)
    reading = null
    if (gone) return undefined
    if (answer) observe(answer)
    pollTimer = idle() ? null : after(SETTINGS.pollInterval, read)
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
    for (const s of servers.values()) if (s.phase !== "trying") judge(s, answer.get(s.name))
    for (const [name, { state, error }] of answer) {
      if (state !== "failed" || servers.has(name) || !concerns(name)) continue
      const s = { name, phase: "", timer: null, tries: 0, error, failedAt: now(), upAt: 0, triedAt: -Infinity, wokenAt: -Infinity, announced: false }
      servers.set(name, s)
      move(s, "waiting", backoff(0))
    }
  }

  // What a status means for a server that has a record and no try under way.
  function judge(s, status) {
    if (status?.state === "failed") {
      s.error = status.error
      if (s.phase === "waiting" || s.phase === "parked") return
      if (s.phase === "up") {
        // Rule 12: only a connection that lasted ends an outage.
        if (now() - s.upAt >= SETTINGS.stableAfter) Object.assign(s, { tries: 0, announced: false })
        s.failedAt = now()
      }
      return retry(s)
    }
    if (status?.state === "connected" && s.phase === "up" && now() - s.upAt < SETTINGS.stableAfter) return
    // Rule 12: connected for good, or without us, or disabled, or no longer configured.
    if (!status || status.state === "connected" || status.state === "disabled") return forget(s)
    move(s, "aside") // rule 1
  }

  // -- A server's schedule. move alone changes a phase and sets a server's timer (rule 9).

  function move(s, phase, delay) {
    cancel(s.timer)
    s.phase = phase
    if (delay === undefined) return
    const gap = s.triedAt + SETTINGS.firstDelay - now() // rule 12: the least gap
    s.timer = after(Math.max(delay, gap), () => attempt(s))
  }

  function forget(s) {
    cancel(s.timer)
    servers.delete(s.name)
  }

  // After a failed try, or a connection that did not last.
  function retry(s) {
    const overloaded = OVERLOADED.test(s.error) // rule 15
    if (overloaded) beCareful()
    const limit = MISSING.test(s.error) ? Math.min(MISSING_TRIES, SETTINGS.maxAttempts) : SETTINGS.maxAttempts
    if (s.tries < limit) return move(s, "waiting", overloaded ? jittered(SETTINGS.maxDelay) : backoff(s.tries))
    move(s, "parked", jittered(SETTINGS.probeInterval))
    if (s.announced) return
    s.announced = true
    host.say("warn", `${s.name} is still failed after ${count(s.tries)}; it is now tried rarely, and on a prompt`, "warning")
  }

  async function attempt(s) {
    if (s.phase === "parked" && idle()) return // rule 13; the next sign of use wakes it
    if (yieldsToRival()) return
    move(s, "trying")
    await connecting.get(s.name)?.settled // rule 5: one that the copy before us started
    if (gone) return
    const slot = requestSlot() // rule 5
    let lease
    slots.add(slot)
    try {
      await slot.granted
      if (gone) return
      lease = after(SETTINGS.connectTimeout, slot.release)
      const before = await read() // rule 3
      if (gone) return
      if (before?.get(s.name)?.state !== "failed" || slot.released) return settle(s, before)
      s.tries++
      s.triedAt = now()
      cancel(lease) // the read has had its time; the connect gets as much
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
      slot.release()
      slots.delete(slot)
    }
  }

  // Ends a try by what the status says.
  function settle(s, answer, tried = false) {
    const status = answer?.get(s.name)
    if (answer && tried && status?.state === "connected") {
      s.upAt = now()
      move(s, "up")
      stopBeingCareful()
      return host.say("info", `${s.name} is back (${count(s.tries)}, ${((s.upAt - s.failedAt) / 1000).toFixed(1)} s)`, "success")
    }
    if (answer && (tried || status?.state !== "failed")) return judge(s, status)
    // Rule 16: no answer is no failure; asked again at the next poll.
    move(s, s.announced ? "parked" : "waiting", SETTINGS.pollInterval)
  }

  function count(tries) {
    return tries === 1 ? "1 try" : `${tries} tries`
  }

  // -- What the host tells

  // Rule 2. `kind` is "prompt", "busy" (another sign of use), "mcp" or "load".
  function used(kind) {
    if (gone || yieldsToRival()) return
    if (!started) {
      if (SETTINGS.start === "mcp" && kind !== "mcp") return
      started = true
      host.say("info", `version ${VERSION} is active in ${directory}`)
    }
    const wasIdle = idle()
    // A crash is an mcp event: it must not keep an instance in use that nobody prompts.
    if (kind !== "mcp" || wasIdle) usedAt = now()
    if (kind === "prompt" || wasIdle) wakeParked()
    if (kind === "prompt" || kind === "mcp" || wasIdle) look()
  }

  // Rule 6: two products would restart each other's servers.
  function yieldsToRival() {
    if (!globalThis.__openchamberMcpReconnectCoordinator) return false
    host.say("info", `quiet in ${directory}, where OpenChamber's own plugin reconnects`)
    dispose()
    return true
  }

  // Returns the connects in flight. Their slots are kept for a successor, which
  // owns the same servers; without one, nothing of them is left.
  function dispose(succeeded = false) {
    if (gone) return connecting
    gone = true
    for (const timer of timers) clearTimeout(timer)
    timers.clear()
    for (const slot of slots) if (!succeeded || !inFlight(slot)) slot.release()
    servers.clear()
    if (shared().engines.get(directory) === engine) shared().engines.delete(directory)
    dropSharedIfUnused()
    return connecting
  }

  function inFlight(slot) {
    return [...connecting.values()].some((connect) => connect.slot === slot)
  }

  const engine = { used, dispose, after, age: () => now() - born }
  // Rule 6: the newest owns the directory, and what the one before has begun (rule 5).
  for (const [name, connect] of shared().engines.get(directory)?.dispose(true) ?? []) {
    connecting.set(name, connect)
    slots.add(connect.slot)
    after(SETTINGS.connectTimeout, connect.slot.release)
    connect.settled.then(() => {
      slots.delete(connect.slot)
      if (connecting.get(name) === connect) connecting.delete(name)
    })
  }
  shared().engines.set(directory, engine)
  return engine
}
