// ---- OpenCode 1 --------------------------------------------------------------

const TERMINAL_DELAY = 1_000 // lets a terminal UI paint before its servers are looked at
const NEWBORN = 1_000 // up to OpenCode 1.1.34 a new copy hears of its predecessor's disposal (rule 7)

// The resident's host: rule 4 for every call, rules 8 and 16 for every answer.
function hostOf(input) {
  const { client, directory } = input
  // OpenCode decodes a directory that is asked for twice, and would act in another one.
  const query = { directory: directory.replaceAll("%", "%25") }
  const options = (rest) => ({ query, ...listener(input.serverUrl), ...credentials(), ...rest })
  let refused = false

  const host = {
    url: listener(input.serverUrl).baseUrl ?? null,
    serial: false,
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

// What a part of a message says of a tool's call (rule 20). The part is the call: the
// model may give one id twice. Up to 1.17.0 a result that is an error is completed.
function callOf(part) {
  if (part?.type !== "tool" || typeof part.id !== "string" || typeof part.tool !== "string") return undefined
  return { id: part.id, tool: part.tool, state: part.state?.status, text: String(part.state?.error ?? part.state?.output ?? "") }
}

// Whether a version of OpenCode notices by itself that a local server is gone. A session
// tells the one that created it, which is no later than this one.
function noticesDeaths(version) {
  const parts = /^(\d+)\.(\d+)\.(\d+)/.exec(String(version))?.slice(1).map(Number)
  const differs = parts?.findIndex((part, n) => part !== SHARED.noticesDeaths[n])
  return parts !== undefined && (differs < 0 || parts[differs] > SHARED.noticesDeaths[differs])
}

export default async function mcpReconnect(input) {
  const { directory } = input
  const resident = createResident(directory, hostOf(input))

  if (SETTINGS.start === "load") resident.after(0, () => resident.used("load"))
  else if (SETTINGS.start === "auto" && inTerminal(directory)) resident.after(TERMINAL_DELAY, () => resident.used("load"))

  return {
    async config(config) {
      const servers = Object.entries(config?.mcp ?? {})
      resident.configured(servers.filter(([, server]) => server?.type === "remote").map(([name]) => name))
    },
    async event(message) {
      const event = message?.event
      const type = String(event?.type)
      if (type === "message.part.updated") {
        const call = callOf(event.properties?.part)
        if (call) resident.called(call)
      } else if (type.startsWith("mcp.")) resident.used("mcp", /^mcp\.(tools|status)\./.test(type) ? event.properties?.server : undefined)
      else if (type === "session.created" || type === "session.updated") {
        if (noticesDeaths(event.properties?.info?.version)) resident.noticesDeaths()
      }
      else if (type === "message.updated") resident.used("busy")
      else if (type === "session.status" && event.properties?.status?.type === "busy") resident.used("busy")
      else if (type === "server.instance.disposed" && event.properties?.directory === directory && resident.age() > NEWBORN) resident.dispose()
    },
    async "chat.message"() {
      resident.used("prompt")
      await resident.hold()
    },
    async dispose() {
      resident.dispose()
    },
  }
}
