// ---- OpenCode 2 --------------------------------------------------------------
//
// Experimental: written from the source of OpenCode 2.0.26, and never run in it.
//
// A plugin cannot connect a server there. It can change the configuration for a
// moment: OpenCode starts a server anew whose configuration is another one at a
// reload than at the one before. So a connect is two reloads, with the server
// disabled in the first.

const RELOAD_LIMIT = 60_000 // OpenCode gives a connection 30 s; a reload that takes longer is given up

async function setup(ctx) {
  const directory = ctx?.location?.directory
  if (typeof directory !== "string") return undefined // nothing to look after
  // The servers that are disabled for a moment: name -> whether OpenCode has seen it
  // yet. Whatever OpenCode rebuilds while a server is not in here enables it again.
  const disabled = new Map()
  try {
    await ctx.mcp.transform((draft) => {
      for (const name of disabled.keys()) {
        try {
          draft.update(name, (config) => {
            config.disabled = true
          })
          disabled.set(name, true)
        } catch {}
      }
    })
  } catch {
    return undefined // without it nothing can be done
  }

  let unloaded = false // by OpenCode, which follows that by a reload of its own
  const restarting = new Set() // names of servers, from the first reload to the end of the second
  const host = {
    url: null,
    closed: false,
    serial: true, // the second reload takes as long as the server's start

    // Starts no server.
    async status() {
      try {
        const { data } = await ctx.mcp.list()
        return new Map(data.map(({ name, status }) => [name, { state: status?.status, error: String(status?.error ?? "") }]))
      } catch {
        return undefined
      }
    },

    // Goes to its end after disposal, too: nothing stays disabled. Where OpenCode has
    // disabled the server and then fails to reload, that is asked for again, until it
    // does or unloads the plugin.
    async connect(name) {
      restarting.add(name)
      disabled.set(name, false)
      await reload()
      const applied = disabled.get(name)
      disabled.delete(name)
      let tries = 0
      do {
        if ((await reload()) || unloaded || !applied) break
        await pause(jittered(Math.max(SETTINGS.firstDelay, backoff(tries++))))
      } while (!unloaded)
      restarting.delete(name)
    },

    // OpenCode 2 has no log for plugins, and console is not for them (rule 17).
    async say() {},
  }
  const resident = createResident(directory, host)

  // Whether OpenCode has reloaded, and not failed to, or taken too long.
  async function reload() {
    let limit
    const late = new Promise((resolve, reject) => (limit = setTimeout(reject, RELOAD_LIMIT)))
    limit.unref?.()
    try {
      await Promise.race([ctx.mcp.reload(), late])
      return true
    } catch {
      return false
    } finally {
      clearTimeout(limit)
    }
  }

  // Not a timer of the resident's, which end with it.
  function pause(ms) {
    return new Promise((resolve) => setTimeout(resolve, Math.ceil(ms)).unref?.())
  }

  // What is told of every directory is told to every plugin.
  function tell(event) {
    if ((event?.location?.directory ?? directory) !== directory) return
    const type = String(event?.type)
    const server = event?.data?.server
    if (type.startsWith("mcp.")) {
      // Somebody else was faster than our reload, and what they did stands.
      if (type === "mcp.status.changed" && disabled.get(server) === false) disabled.delete(server)
      // What we do ourselves is no sign of use (rule 2), and is looked at when it is done.
      if (!restarting.has(server)) resident.used("mcp", server)
    } else if (type === "session.execution.started") resident.used("prompt")
    else if (type.startsWith("session.")) resident.used("busy")
  }

  let events
  async function listen() {
    try {
      events = ctx.event.subscribe()[Symbol.asyncIterator]()
      for (let next = await events.next(); !next.done; next = await events.next()) tell(next.value)
    } catch {}
    resident.after(SETTINGS.pollInterval, listen) // one event that cannot be encoded ends them all
  }

  if (SETTINGS.start === "load" || SETTINGS.start === "auto") resident.after(0, () => resident.used("load"))
  listen()

  return () => {
    unloaded = true
    resident.dispose()
    disabled.clear()
    try {
      Promise.resolve(events?.return?.()).catch(() => {})
    } catch {}
  }
}

export default { id: "mcp-reconnect", setup }
