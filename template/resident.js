// ---- The resident ------------------------------------------------------------
//
// It ties the engine of one directory to this process: the clock, the other copies of the
// plugin and other products (rule 6), the files (rules 18, 19), and the prompts that wait
// (rule 21). A host gives it functions, none of which may reject:
//
//   host.status()          a Map of server name -> {state, error}, or undefined for "no answer"
//   host.connect(name)     settles when the attempt is over; what it settles to does not count
//   host.say(level, text, variant)  one line for people; worth a toast if it has a variant
//   host.url               of the server, for people, or null
//   host.serial            see createEngine
//   host.closed            set when nothing may be said any more
//
// and tells it what happens through the functions of createResident's result.

const SAVE_DELAY = 100 // what changes within this time is written at once (rule 18)
const SAVE_TRIES = 8 // where it cannot be written; the delay doubles
const FIRST_ANSWER = 30_000 // a prompt waits at most so long for the first status, as OpenCode does for a server (rule 21)

// What all copies of the plugin in this process share (rules 5 and 6): the resident of
// each directory, and the pool. It exists only while a resident does.
const REGISTRY = Symbol.for("mcp-reconnect/2") // 2 is the shape of what is shared

function registry() {
  return (globalThis[REGISTRY] ??= { residents: new Map(), pool: createPool() })
}

function dropRegistryIfUnused() {
  const { residents, pool } = registry()
  if (residents.size === 0 && pool.running === 0 && pool.queue.length === 0) delete globalThis[REGISTRY]
}

// The time that passed, whatever is done to the clock on the wall.
function now() {
  return performance.now()
}

function createResident(directory, host) {
  const born = now()
  const before = succeed(registry().residents.get(directory))
  const { residents, pool } = registry() // another one, if that was the last resident
  const store = openStore(directory)
  const timers = new Set() // all that are set, for dispose
  const connecting = new Map() // name -> promise: the connects in flight, for the next resident
  const held = new Set() // prompts that wait
  let gone = false // disposed, or replaced by a newer copy: nothing happens any more (rule 7)
  let timer = null // for the engine's next moment
  let timerAt // that moment
  let reads = 0 // of the status, so far
  let paused = false // as control says
  let retriedAt = readControl().retry.at // of the last retry that was asked for, by the clock on the wall
  let known = false // a status was read
  let started = 0 // when the engine began to act, by the clock on the wall
  let saveTimer = null // set while something is to be written
  let unsaved = 0 // how often in a row that failed
  let unanswered = false // a prompt waited in vain for the first status

  // -- Time. Timers keep no process alive (rule 7), but for a prompt's that waits, and no
  // error leaves one (rule 8).

  function after(ms, action, keeps = false) {
    if (gone) return undefined
    const due = Date.now() + ms
    const set = setTimeout(() => {
      timers.delete(set)
      if (gone) return
      if (Date.now() - due > SHARED.constants.sleep) feed((at) => engine.wokeUp(at))
      try {
        action()
      } catch {}
    }, Math.ceil(ms)) // hosts cut fractions off
    if (!keeps) set?.unref?.()
    timers.add(set)
    return set
  }

  function cancel(timer) {
    clearTimeout(timer)
    timers.delete(timer)
  }

  // Sets a timer for the engine's next moment.
  function schedule() {
    const at = engine.next()
    if (at === timerAt) return
    cancel(timer)
    timerAt = at
    if (at === undefined) return
    timer = after(Math.max(0, at - now()), () => {
      timerAt = undefined
      const reached = now()
      for (let at = engine.next(); at <= reached && !gone; at = engine.next()) feed(() => engine.advance(reached))
      if (!gone) schedule()
    })
  }

  // -- The engine

  // Tells the engine something, and does what it and the others then want.
  function feed(tell) {
    if (gone) return
    try {
      tell(now())
    } catch {}
    drain()
  }

  function drain() {
    for (const pump of pool.pending) {
      pool.pending.delete(pump)
      try {
        pump()
      } catch {}
    }
  }

  // Does what the engine wants.
  function pump() {
    if (gone || yieldsToRival()) return
    for (const action of engine.actions()) perform(action)
    if (gone) return
    schedule()
    release()
  }

  function perform({ do: what, server, level, text }) {
    if (what === "status") {
      // What no change is told of counts all the same, though later.
      if (replaced()) noteChange()
      if (!store.saved()) saveAnew()
      steer(readControl())
      const number = ++reads
      host.status().then((answer) => {
        if (number !== reads) return // it was given up
        feed((at) => engine.read(at, answer))
        if (known || !answer) return
        known = true
        changed()
      })
    } else if (what === "connect") {
      follow(server, host.connect(server))
    } else if (what === "show") {
      changed()
    } else if (server === undefined) {
      start()
    } else {
      host.say(level, text, level === "info" ? "success" : "warning")
    }
  }

  function follow(name, connect) {
    connecting.set(name, connect)
    connect.then(() => {
      if (connecting.get(name) === connect) connecting.delete(name)
      feed((at) => engine.settled(at, name))
    })
  }

  function start() {
    started = Date.now()
    host.say("info", `version ${VERSION} is active in ${directory}`)
    const control = readControl()
    retriedAt = control.retry.at // what was asked of others
    steer(control)
  }

  // -- Prompts (rule 21)

  // Resolves when a prompt may go on: at once, but where servers may be back soon.
  function hold() {
    const cold = !engine.answered()
    const told = engine.told()
    if (gone || SETTINGS.holdPrompt === 0 || !engine.soon(now(), told) || (cold && unanswered)) return undefined
    return new Promise((resolve) => {
      const prompt = { resolve, cold, told, timer: undefined }
      held.add(prompt)
      prompt.timer = limit(prompt, cold ? FIRST_ANSWER : SETTINGS.holdPrompt)
    })
  }

  function limit(prompt, ms) {
    return after(ms, () => giveUp(prompt), true)
  }

  // A server that takes longer than a prompt waits costs the next one nothing.
  function giveUp(prompt) {
    unanswered = prompt.cold
    engine.keptWaiting(now())
    letGo(prompt)
  }

  function letGo(prompt) {
    cancel(prompt.timer)
    held.delete(prompt)
    prompt.resolve()
  }

  // Lets the prompts go that have nothing to wait for any more.
  function release() {
    for (const prompt of held) {
      if (!engine.soon(now(), prompt.told)) letGo(prompt)
      else if (prompt.cold && engine.answered()) {
        // Until then OpenCode itself waits for the servers' own start.
        prompt.cold = false
        cancel(prompt.timer)
        prompt.timer = limit(prompt, SETTINGS.holdPrompt)
      }
    }
  }

  // -- State and control

  // Rule 18: written when something changed.
  function changed() {
    if (!gone) saveTimer ??= after(SAVE_DELAY * 2 ** unsaved, save)
  }

  function save() {
    saveTimer = null
    const servers = engine.servers().map((s) => ({ ...s, since: wall(s.since), triedAt: wall(s.triedAt), dueAt: wall(s.dueAt) }))
    const saved = store.save({ url: host.url, started: started > 0, paused, known, retriedAt, servers })
    unsaved = saved ? 0 : Math.min(unsaved + 1, SAVE_TRIES)
    if (!saved && unsaved < SAVE_TRIES) changed()
  }

  function wall(time) {
    return time === undefined ? null : Math.round(Date.now() + time - now())
  }

  // Called when something changed in the state directory. Returns whether our file is there.
  function look(control) {
    const saved = store.saved()
    if (!saved) saveAnew()
    if (started > 0 || control.retry.use.includes(directory)) steer(control) // else when it is in use
    drain()
    return saved
  }

  // Somebody removed the file, perhaps with its directory, which may be there again.
  function saveAnew() {
    unsaved = 0
    cancel(saveTimer)
    saveTimer = null
    changed()
  }

  // Rule 19. Called when the file may have changed, and before each status read.
  function steer(control) {
    if (control.paused !== paused) {
      paused = control.paused
      engine.pause(now(), paused)
    }
    const { at, servers, directories, use, force } = control.retry
    if (at <= retriedAt) return
    retriedAt = at
    changed()
    if (use.includes(directory)) engine.used(now(), "asked") // rule 2
    // What was asked before may be read late, where a disk was broken: it forces nothing any more.
    const forced = at >= started ? force : []
    if (directories.length === 0 || directories.includes(directory)) engine.retry(now(), servers, forced)
  }

  // Rule 6: two products would restart each other's servers.
  function yieldsToRival() {
    if (!globalThis.__openchamberMcpReconnectCoordinator) return false
    host.say("info", `quiet in ${directory}, where OpenChamber's own plugin reconnects`)
    dispose()
    return true
  }

  // Returns what a successor goes on with.
  function dispose(succeeded = false) {
    if (gone) return undefined
    gone = host.closed = true
    for (const timer of timers) clearTimeout(timer)
    timers.clear()
    stopFollowing()
    store.remove()
    for (const prompt of held) letGo(prompt)
    const left = engine.close(now(), succeeded)
    if (residents.get(directory) === resident) residents.delete(directory)
    drain()
    dropRegistryIfUnused()
    return { ...left, connecting }
  }

  const engine = createEngine(pool, born, { pump, serial: host.serial, before })
  const resident = {
    dispose,
    after,
    age: () => now() - born,
    used: (use, server) => gone || yieldsToRival() || feed((at) => engine.used(at, use, server)),
    called: (call) => feed((at) => engine.called(at, call)),
    noticesDeaths: () => feed((at) => engine.noticesDeaths(at)),
    configured: (remotes) => feed((at) => engine.configured(at, remotes)),
    hold,
  }
  for (const [name, connect] of before?.connecting ?? []) follow(name, connect)
  if (residents.size === 0) store.sweep()
  residents.set(directory, resident)
  schedule()
  save()
  const stopFollowing = followControl(look)
  return resident
}

// Rule 6: the newest copy owns a directory. Ends the resident of an older one, perhaps of
// another version, and returns what it left.
function succeed(resident) {
  try {
    return resident?.dispose(true)
  } catch {
    return undefined
  }
}
