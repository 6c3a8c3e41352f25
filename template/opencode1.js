// ---- OpenCode 1 --------------------------------------------------------------

const TERMINAL_DELAY = 1_000 // lets a terminal UI paint before its servers are looked at
const NEWBORN = 1_000 // up to OpenCode 1.1.34 a new copy hears of its predecessor's disposal (rule 7)

// The engine's host: rule 4 for every call, rules 8 and 16 for every answer.
function hostOf(input) {
  const { client, directory } = input
  // OpenCode decodes a directory that is asked for twice, and would act in another one.
  const query = { directory: directory.replaceAll("%", "%25") }
  const options = (rest) => ({ query, ...listener(input.serverUrl), ...credentials(), ...rest })
  let refused = false

  const host = {
    url: listener(input.serverUrl).baseUrl ?? null,
    closed: false,

    async status() {
      try {
        const { data, error, response } = await client.mcp.status(options())
        if (response?.status === 401 && !refused && !host.closed) {
          refused = true
          host.say("warn", "OpenCode refuses the plugin's requests (401): OPENCODE_SERVER_PASSWORD is not the server's")
        }
        if (error || typeof data !== "object" || data === null || Array.isArray(data)) return undefined
        const answer = new Map()
        for (const [name, status] of Object.entries(data)) {
          // A bare string in old versions (rule 1).
          const state = typeof status === "string" ? status : status?.status
          answer.set(name, { state, error: String(status?.error ?? "") })
        }
        return answer
      } catch {
        return undefined
      }
    },

    async connect(name) {
      try {
        await client.mcp.connect(options({ path: { name } }))
      } catch {}
    },

    // Rule 17: never console, which a terminal UI would show. Not every version's
    // log prints the service.
    async say(level, text, variant) {
      const message = `mcp-reconnect: ${text}`
      try {
        if (SETTINGS.log === "info" || SETTINGS.log === level)
          await client.app.log(options({ body: { service: "mcp-reconnect", level, message } }))
      } catch {}
      try {
        if (SETTINGS.notify === "toast" && variant && !host.closed)
          await client.tui.showToast(options({ body: { message, variant } }))
      } catch {}
    },
  }
  return host
}

// Where the server listens, calls go there: from 1.14.48 to 1.17.0 the client that
// plugins get serves another instance than the user sees. Without a listener
// OpenCode says http://localhost:4096, where a stranger may listen.
function listener(serverUrl) {
  try {
    const url = new URL(String(serverUrl))
    if (url.origin === "http://localhost:4096") return {}
    if (url.hostname === "0.0.0.0") url.hostname = "127.0.0.1"
    if (url.hostname === "[::]") url.hostname = "[::1]"
    return { baseUrl: url.origin, fetch: globalThis.fetch }
  } catch {
    return {}
  }
}

function credentials() {
  const password = process.env.OPENCODE_SERVER_PASSWORD
  if (!password) return {}
  const user = process.env.OPENCODE_SERVER_USERNAME || "opencode"
  return { headers: { Authorization: "Basic " + Buffer.from(`${user}:${password}`).toString("base64") } }
}

// The directory that a terminal UI was started in: its UI reads the status itself.
function inTerminal(directory) {
  return directory === process.cwd() && process.argv.some((arg) => /[\\/]tui[\\/]worker\.[jt]s$/.test(arg))
}

export default async function mcpReconnect(input) {
  const { directory } = input
  const engine = createEngine(directory, hostOf(input))

  if (SETTINGS.start === "load") engine.after(0, () => engine.used("load"))
  else if (SETTINGS.start === "auto" && inTerminal(directory)) engine.after(TERMINAL_DELAY, () => engine.used("load"))

  return {
    async event(message) {
      const event = message?.event
      const type = String(event?.type)
      if (type.startsWith("mcp.")) engine.used("mcp", event.properties?.server)
      else if (type === "message.updated") engine.used("busy")
      else if (type === "session.status" && event.properties?.status?.type === "busy") engine.used("busy")
      else if (type === "server.instance.disposed" && event.properties?.directory === directory && engine.age() > NEWBORN) engine.dispose()
    },
    async "chat.message"() {
      engine.used("prompt")
    },
    async dispose() {
      engine.dispose()
    },
  }
}
