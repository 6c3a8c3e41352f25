// ---- Calls -------------------------------------------------------------------
//
// What the calls of tools say of their servers (rule 20).

// The running calls, in the order in which they began. The oldest of many is forgotten:
// what is not known to have run proves nothing.
function createCalls() {
  const running = new Map() // id -> {server, began}
  return {
    begin(id, server, now) {
      const call = running.get(id)
      if (call) return void (call.server = server)
      if (running.size === SHARED.constants.mostCalls) running.delete(running.keys().next().value)
      running.set(id, { server, began: now })
    },

    // Removes a call and returns it. It is not found a second time: one end is told once,
    // however often it is repeated.
    end(id) {
      const call = running.get(id)
      running.delete(id)
      return call
    },

    // Whether a call of the server is running that began since a time.
    of(server, since) {
      for (const call of running.values()) if (call.server === server && call.began >= since) return true
      return false
    },
  }
}

// How a name stands in the id of a tool: OpenCode goes by UTF-16 units.
function toolID(name) {
  return name.replace(/[^A-Za-z0-9_-]/g, "_")
}

// Whether an error is a server's own word that it has no such tool, whose id, without the
// server's, is given.
function deniesTool(text, id) {
  const denied = says(text, "outdated")
  return denied !== null && toolID(denied[1]) === id
}
