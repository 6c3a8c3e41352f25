// ---- State and control -------------------------------------------------------
//
// What the plugin says of itself and what it is told, in files of the directory
// that it was loaded from. `mcp-reconnect status`, retry, pause and resume have the
// other end. Where a file cannot be read or written, all else goes on.

const STATE_FORMAT = 1 // of a state file; readers leave newer ones alone
const ERROR_LENGTH = 200 // of an error in a state file, in characters

// The directory that mcp-reconnect installed. Undefined for a copy of this file
// that stands elsewhere: it keeps no state.
function installedIn() {
  try {
    const directory = dirname(fileURLToPath(import.meta.url))
    return basename(directory) === "mcp-reconnect" ? directory : undefined
  } catch {
    return undefined
  }
}

function openStore(directory) {
  const home = installedIn()
  const states = join(home ?? "", "state")
  const hash = createHash("sha256").update(directory).digest("hex").slice(0, 16)
  const path = join(states, `${process.pid}-${hash}.json`)
  const temporary = join(states, `.${process.pid}-${hash}.tmp`)

  return {
    // Rule 18. Synchronous, since nothing is left to be undone then at disposal;
    // the few hundred bytes are not synced, as no power failure leaves their reader.
    save(state) {
      if (!home) return
      const text = JSON.stringify({ format: STATE_FORMAT, version: VERSION, pid: process.pid, host: hostname(), directory, ...state })
      try {
        fs.mkdirSync(states, { mode: 0o700 }) // not the one above it, which somebody may have removed
      } catch {}
      try {
        if (!fs.lstatSync(states).isDirectory()) return
        fs.rmSync(temporary, { force: true })
        fs.writeFileSync(temporary, text + "\n", { flag: "wx", mode: 0o600 }) // wx follows no link
        fs.chmodSync(temporary, 0o600) // whatever the umask
        fs.renameSync(temporary, path)
      } catch {
        remove(temporary)
      }
    },

    remove() {
      if (home) remove(path)
    },

    // A signal ends OpenCode without a word to its plugins: what such processes of
    // this machine left is removed.
    sweep() {
      try {
        for (const file of home ? fs.readdirSync(states) : []) {
          const pid = Number(/^\.?(\d+)-/.exec(file)?.[1])
          if (pid && !isAlive(pid) && (file.startsWith(".") || isOfThisHost(join(states, file)))) remove(join(states, file))
        }
      } catch {}
    },

    // Rule 19: {paused, retry: {at, servers, directory}}, whatever the file holds.
    control() {
      let content
      try {
        const path = join(home, "control.json")
      if (!fs.lstatSync(path).isSymbolicLink()) content = JSON.parse(fs.readFileSync(path, "utf8"))
      } catch {}
      const retry = content?.retry
      return {
        paused: content?.paused === true,
        retry: { at: Number(retry?.at) || 0, servers: Array.isArray(retry?.servers) ? retry.servers : [], directory: retry?.directory },
      }
    },

    // Calls back when something in the directory changed, and costs nothing until
    // then. It does not say what it was: not every Bun names the file.
    watch(changed) {
      try {
        const watcher = fs.watch(home, { persistent: false }, () => changed())
        watcher.on("error", () => {})
        watcher.unref?.()
        return () => {
          try {
            watcher.close()
          } catch {}
        }
      } catch {
        return () => {}
      }
    },
  }
}

function remove(file) {
  try {
    fs.rmSync(file, { force: true })
  } catch {}
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error?.code !== "ESRCH"
  }
}

// Several machines, or containers, may share a data directory.
function isOfThisHost(file) {
  try {
    return JSON.parse(fs.readFileSync(file, "utf8")).host === hostname()
  } catch {
    return false
  }
}

// An error without what may be a secret in it: errors quote addresses, headers and
// command lines.
function harmless(error) {
  let text = error
  for (const [name, value] of Object.entries(process.env))
    if (/KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL/i.test(name) && value.length >= 6) text = text.replaceAll(value, "…")
  text = text
    .replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+/g, " ") // a terminal may show it
    .replace(/(\w:\/\/)[^\s/@]*@/g, "$1…@")
    .replace(/(\w:\/\/[^\s?#"'`]*[?#])[^\s"'`]+/g, "$1…")
    .replace(/\b(bearer|basic)\s+[^\s"'`,]+/gi, "$1 …")
    .replace(/([\w-]*(?:key|token|secret|passw(?:or)?d|authorization|cookie)["']?\s*[=:]\s*["']?|--?[\w-]*(?:key|token|secret|password)\s+)[^\s"'`,;]+/gi, "$1…")
    .replace(/[\w+=-]{20,}/g, (word) => (/\d.*\d/.test(word) && /[a-z]/i.test(word) ? "…" : word))
  return [...text].slice(0, ERROR_LENGTH).join("")
}
