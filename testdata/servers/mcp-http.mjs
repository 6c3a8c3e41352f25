// A small MCP server for the end-to-end tests that is reached over HTTP:
//
//   node mcp-http.mjs NAME PORT       streamable HTTP, http://127.0.0.1:PORT/mcp
//   node mcp-http.mjs NAME PORT sse   the old HTTP+SSE, http://127.0.0.1:PORT/sse
//
// Files in $MCP_TEST_DIR steer it and tell of it, beside those of tools.mjs:
//   NAME.auth     while it exists, the server asks for a sign-in (401), with all that OAuth wants to know
//   NAME.page     holds a status: while it exists, everything is answered by that and a page, as by a proxy
//   NAME.session  holds how the server answers a session that it does not know: 404, as without it, 400, as the
//                 examples of the SDK do, or 200 with an error of JSON-RPC
//   NAME.log      gets a line for each request: its method, its path, and the method of JSON-RPC
// A session ends with the process.
import { randomUUID } from "node:crypto"
import { createServer, STATUS_CODES } from "node:http"
import { text } from "node:stream/consumers"
import { answer, steering } from "./tools.mjs"

const [name, port, transport] = process.argv.slice(2)
const { append, exists, read } = steering(name)
const origin = `http://127.0.0.1:${port}`
const sessions = new Set()
const streams = new Map() // of the old transport, by session

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
  const message = body ? JSON.parse(body) : {}
  const { pathname: path, searchParams: query } = new URL(request.url, origin)
  append("log", [request.method, path, message.method].join(" ").trim())
  const send = (status, content, headers = {}) =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(content && JSON.stringify(content))
  const page = (status, content, type = "text/html") => response.writeHead(status, { "content-type": type }).end(content)

  if (exists("page")) return page(Number(read("page")), `<html><body><h1>${read("page")} ${STATUS_CODES[read("page")]}</h1></body></html>\r\n`)
  if (exists("auth")) {
    const known = oauth[path.replace(/\/mcp$/, "")]
    if (known) return send(path === "/register" ? 201 : 200, known(body && JSON.parse(body)))
    return send(401, { error: "unauthorized" }, { "www-authenticate": `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource"` })
  }

  if (transport === "sse") {
    if (request.method === "GET" && path === "/sse") {
      const session = randomUUID()
      streams.set(session, response)
      response.on("close", () => streams.delete(session))
      response.writeHead(200, { "content-type": "text/event-stream" })
      return response.write(`event: endpoint\ndata: /messages?sessionId=${session}\n\n`)
    }
    if (request.method !== "POST" || path !== "/messages") return send(404)
    const stream = streams.get(query.get("sessionId"))
    if (!stream) return page(404, "session not found", "text/plain")
    page(202, "Accepted", "text/plain")
    if (message.id === undefined) return
    return stream.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", id: message.id, ...(await answer(name, message)) })}\n\n`)
  }

  if (path !== "/mcp") return send(404)
  if (request.method !== "POST") return send(405) // no stream of its own, which a server need not have
  const session = message.method === "initialize" ? randomUUID() : request.headers["mcp-session-id"]
  if (message.method === "initialize") sessions.add(session)
  if (!sessions.has(session)) {
    switch (read("session")) {
      case "400":
        return send(400, { jsonrpc: "2.0", error: { code: -32000, message: "Bad Request: No valid session ID provided" }, id: null })
      case "200":
        return message.id === undefined ? send(202) : send(200, { jsonrpc: "2.0", id: message.id, error: { code: -32001, message: "Session not found" } })
      default:
        return send(404)
    }
  }
  if (message.id === undefined) return send(202)
  send(200, { jsonrpc: "2.0", id: message.id, ...(await answer(name, message)) }, { "mcp-session-id": session })
}).listen(Number(port), "127.0.0.1")
