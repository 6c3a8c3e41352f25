const SHOWN = 100 // events, the newest first

const element = (id) => document.getElementById(id)

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
    d.servers.map((s) => row([[url], [d.directory + (d.by_plugin ? " (by its plugin)" : "")], [s.name], [s.state, s.state], [s.tries || ""], [s.state === "connected" ? "" : s.error]])),
  )
  return [row([[url], [""], [""], [state, state], [state === "connected" ? "" : attempt || ""], [error]]), ...all]
}

async function show() {
  const answer = await fetch("states")
  const { targets } = await answer.json()
  element("states").replaceChildren(...targets.flatMap(rows))
}

// One request for all events of a moment.
let due
function showSoon() {
  due ??= setTimeout(() => {
    due = undefined
    show().catch(() => {})
  }, 100)
}

function note({ data }) {
  const { type, server, directory, url, from, to, error, time } = JSON.parse(data)
  const what = type === "tools_changed" ? "tools changed" : `${from || "–"} → ${to || "–"}`
  const li = document.createElement("li")
  li.textContent = [new Date(time).toLocaleTimeString(), url, directory, server, what, error].filter(Boolean).join("  ")
  element("events").prepend(li)
  while (element("events").children.length > SHOWN) element("events").lastChild.remove()
  showSoon()
}

const events = new EventSource("events")
for (const type of ["tools_changed", "state", "target"]) events.addEventListener(type, note)
events.onopen = () => {
  element("live").textContent = "live"
  showSoon() // what was missed
}
events.onerror = () => (element("live").textContent = "not connected to mcp-reconnect; trying again")
element("retry").onclick = () => fetch("retry", { method: "POST" })
