// ---- State and control -------------------------------------------------------
//
// What the plugin says of itself and what it is told, in files of the directory
// that it was loaded from. `mcp-reconnect status`, retry, pause and resume have the
// other end. Where a file cannot be read or written, all else goes on.

const STATE_FORMAT = 1 // of a state file; readers leave newer ones alone
const READ_LIMIT_BYTES = 1 << 20 // more than any file here has
const WATCH_INTERVAL = 500 // where changes have to be looked for

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

// Which process this is, for readers: a pid is given again, and means nothing on another
// machine or in another container. Linux tells when a process began and in which space
// its pid counts (proc_pid_stat(5), pid_namespaces(7)); elsewhere these are "".
function thisProcess() {
  const told = { pid: process.pid, host: "", space: "", began: "" }
  try {
    told.host = hostname()
    told.space = fs.readlinkSync("/proc/self/ns/pid")
    const stat = fs.readFileSync("/proc/self/stat", "utf8")
    told.began = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]
  } catch {}
  return told
}

function openStore(directory) {
  const home = installedIn()
  const states = join(home ?? "", "state")
  const self = thisProcess()
  const hash = createHash("sha256").update(`${self.host} ${self.space} ${directory}`).digest("hex").slice(0, 16)
  const path = join(states, `${self.pid}-${hash}.json`)
  const temporary = join(states, `.${self.pid}-${hash}.tmp`)

  return {
    // Rule 18. Returns whether that went well. Synchronous, since nothing is left to be
    // undone then at disposal; the few hundred bytes are not synced, as no power
    // failure leaves their reader.
    save(state) {
      if (!home) return true
      const text = JSON.stringify({ format: STATE_FORMAT, version: VERSION, ...self, directory, ...state })
      try {
        fs.mkdirSync(states, { mode: 0o700 }) // not the one above it, which somebody may have removed
      } catch {}
      try {
        if (!fs.lstatSync(states).isDirectory()) return false
        fs.rmSync(temporary, { force: true })
        fs.writeFileSync(temporary, text + "\n", { flag: "wx", mode: 0o600 }) // wx follows no link
        fs.chmodSync(temporary, 0o600) // whatever the umask
        fs.renameSync(temporary, path)
        return true
      } catch {
        remove(temporary)
        return false
      }
    },

    remove() {
      if (home) remove(path)
    },

    // A signal ends OpenCode without a word to its plugins: what such processes of
    // this machine left is removed.
    sweep() {
      try {
        for (const name of home ? fs.readdirSync(states) : []) {
          const [, pid] = /^(\d{1,10})-[0-9a-f]{16}\.json$/.exec(name) ?? []
          const left = pid && !isAlive(Number(pid)) && readJSON(join(states, name))
          if (left?.host === self.host && left.space === self.space) remove(join(states, name))
        }
      } catch {}
    },

    // Rule 19: {paused, retry: {at, servers, directories, force}}, whatever the file holds.
    control() {
      const content = readJSON(join(home ?? "", "control.json"))
      const retry = typeof content?.paused === "boolean" ? content.retry : undefined
      const list = (value) => (Array.isArray(value) ? value : [])
      return {
        paused: content?.paused === true,
        retry: { at: Number(retry?.at) || 0, servers: list(retry?.servers), directories: list(retry?.directories), force: list(retry?.force) },
      }
    },

    // Calls back when something in the directory changed, and costs nothing until
    // then. It does not say what it was: not every Bun names the file.
    watch(changed) {
      if (!home) return () => {}
      const file = join(home, "control.json")
      let stop
      // Where the system cannot watch, for want of inotify watches, say, it is looked at.
      const look = () => {
        try {
          fs.watchFile(file, { interval: WATCH_INTERVAL, persistent: false }, changed)
          stop = () => fs.unwatchFile(file, changed)
        } catch {}
      }
      try {
        const watcher = fs.watch(home, { persistent: false }, () => changed())
        stop = () => watcher.close()
        watcher.on("error", () => {
          stop()
          look()
        })
        watcher.unref?.()
      } catch {
        look()
      }
      return () => {
        try {
          stop?.()
        } catch {}
      }
    },
  }
}

function remove(file) {
  try {
    fs.rmSync(file, { force: true })
  } catch {}
}

// A small file's content, or undefined. What is no regular file may never end.
function readJSON(file) {
  try {
    const stat = fs.lstatSync(file)
    return stat.isFile() && stat.size <= READ_LIMIT_BYTES ? JSON.parse(fs.readFileSync(file, "utf8")) : undefined
  } catch {
    return undefined
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error?.code !== "ESRCH"
  }
}
