// A small MCP server (streamable HTTP, http://127.0.0.1:PORT/mcp) for the end-to-end tests:
//
//   node mcp-http.mjs NAME PORT
//
// Files in $MCP_TEST_DIR steer it and tell of it:
//   NAME.auth  while it exists, the server asks for a sign-in (401), with all that OAuth wants to know
//   NAME.log   gets a line for each request: its method, its path, and the method of JSON-RPC
// It has one tool, "echo", which returns its argument. A session ends with the process.
import { randomUUID } from "node:crypto"
import { appendFileSync, existsSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import { text } from "node:stream/consumers"

const [name, port] = process.argv.slice(2)
const file = (ending) => join(process.env.MCP_TEST_DIR, `${name}.${ending}`)
const origin = `http://127.0.0.1:${port}`
const sessions = new Set()

const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name, version: "1.0.0" } }),
  ping: () => ({}),
  "tools/list": () => ({
    tools: [{ name: "echo", description: "Returns its text", inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } }],
  }),
  "tools/call": ({ arguments: { text } }) => ({ content: [{ type: "text", text: `${name} says ${text}` }] }),
}

const oauth = {
  "/.well-known/oauth-protected-resource": () => ({ resource: `${origin}/mcp`, authorization_servers: [origin] }),
  "/.well-known/oauth-authorization-server": () => ({
    issuer: origin,
    authorization_endpoint: `${origin}/authorize`,
    token_endpoint: `${origin}/token`,
    registration_endpoint: `${origin}/register`,
    response_types_supported: ["code"],
    code_challenge_methods_supported: ["S256"],
  }),
  "/register": (client) => ({ ...client, client_id: "c" }),
}

createServer(async (request, response) => {
  const body = await text(request)
  const { id, method, params } = body ? JSON.parse(body) : {}
  const path = new URL(request.url, origin).pathname
  appendFileSync(file("log"), [request.method, path, method].join(" ").trim() + "\n")
  const send = (status, answer, headers = {}) =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(answer && JSON.stringify(answer))

  if (existsSync(file("auth"))) {
    const known = oauth[path.replace(/\/mcp$/, "")]
    if (known) return send(path === "/register" ? 201 : 200, known(body && JSON.parse(body)))
    return send(401, { error: "unauthorized" }, { "www-authenticate": `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource"` })
  }
  if (path !== "/mcp") return send(404)
  if (request.method !== "POST") return send(405) // no stream of its own, which a server need not have
  const session = method === "initialize" ? randomUUID() : request.headers["mcp-session-id"]
  if (method === "initialize") sessions.add(session)
  if (!sessions.has(session)) return send(404)
  if (id === undefined) return send(202)
  const answer = answers[method]
  const message = answer ? { result: answer(params) } : { error: { code: -32601, message: `no method ${method}` } }
  send(200, { jsonrpc: "2.0", id, ...message }, { "mcp-session-id": session })
}).listen(Number(port), "127.0.0.1")
