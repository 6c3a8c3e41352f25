const SHOWN = 100 // events, the newest first
const LOOK = 5_000 // ms between two looks at the states: no event tells of a pause
const FIRST = 1_000 // ms before a new stream is asked for, doubling from there
const LONGEST = 30_000
const PATIENCE = 10_000 // ms for an answer

const element = (id) => document.getElementById(id)

function say(id, text) {
  element(id).textContent = text
}

async function ask(path, options) {
  const answer = await fetch(path, { ...options, signal: AbortSignal.timeout(PATIENCE) })
  if (answer.ok) return answer
  const plain = answer.headers.get("content-type")?.startsWith("text/plain") // a proxy's is a page
  throw new Error(["error", answer.status, plain ? await answer.text() : answer.statusText].join(" ").trim())
}

function row(cells) {
  const tr = document.createElement("tr")
  for (const [text, kind] of cells) {
    const td = tr.insertCell()
    td.textContent = text // what servers say is text, never markup
    if (kind) td.className = kind
  }
  return tr
}

function rows({ url, state, error, attempt, directories }) {
  const all = directories.flatMap((d) =>
    d.servers.map((s) => row([[url], [d.directory + (d.by_other ? " (another does the work)" : "")], [s.name], [s.state, s.state], [s.tries || ""], [s.state === "connected" ? "" : s.error]])),
  )
  return [row([[url], [""], [""], [state, state], [state === "connected" ? "" : attempt || ""], [error]]), ...all]
}

async function show() {
  try {
    const { paused, targets } = await (await ask("states")).json()
    element("paused").hidden = !paused
    element("states").replaceChildren(...targets.flatMap(rows))
    say("problem", "")
  } catch (error) {
    say("problem", `the states below may be old: ${error.message}`)
  }
}

// One request for all events of a moment, and one at a time.
let due
let shown
function showSoon() {
  due ??= setTimeout(async () => {
    await shown
    due = undefined
    shown = show()
  }, 100)
}

function note({ data }) {
  const { type, server, directory, url, from, to, error, time, origin } = JSON.parse(data)
  const what = { tools_changed: "tools changed", missed: "missed" }[type] ?? `${from || "–"} → ${to || "–"}`
  const teller = origin && `told by another watch, ${origin}`
  const li = document.createElement("li")
  li.textContent = [new Date(time).toLocaleTimeString(), url, directory, server, what, error, teller].filter(Boolean).join("  ")
  element("events").prepend(li)
  while (element("events").children.length > SHOWN) element("events").lastChild.remove()
  showSoon()
}

let delay = FIRST
function connect() {
  const events = new EventSource("events")
  for (const type of ["tools_changed", "state", "target", "missed"]) events.addEventListener(type, note)
  events.onopen = () => {
    delay = FIRST
    say("live", "live")
    showSoon() // what was missed
  }
  events.onerror = () => {
    showSoon() // which says what is wrong, if it still is
    if (events.readyState !== EventSource.CLOSED) {
      say("live", "not connected to mcp-reconnect; trying again")
      return
    }
    // The answer was no stream, but that of a proxy, perhaps: the browser leaves it at that.
    say("live", `not connected to mcp-reconnect; trying again in ${delay / 1000} s`)
    setTimeout(connect, delay)
    delay = Math.min(2 * delay, LONGEST)
  }
}

// What a try is passed on to, in words.
function answer({ url, directory, servers }) {
  if (directory === "") return `connecting to ${url}`
  return servers.length > 0 ? `trying ${servers.join(", ")} in ${directory}` : `no server is known to have failed in ${directory}`
}

connect()
setInterval(showSoon, LOOK)
element("retry").onclick = async () => {
  say("asked", "asking")
  try {
    const { matched } = await (await ask("retry", { method: "POST" })).json()
    say("asked", matched.map(answer).join("; "))
  } catch (error) {
    say("asked", error.message)
  }
}
