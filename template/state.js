// ---- State and control -------------------------------------------------------
//
// What the plugin says of itself and what it is told, in files of a directory beside the
// one that it was loaded from, in which OpenCode 2 would load everything anew for each
// write. `mcp-reconnect status`, retry, pause and resume have the other end. Where a file
// cannot be read or written, all else goes on.

const STATE_FORMAT = 1 // of a state file; readers leave newer ones alone
const READ_LIMIT_BYTES = 1 << 20 // more than any file here has
const WATCH_INTERVAL = 500 // where changes have to be looked for
const STEER_DELAY = 100 // from a sign that control changed to the look at it (rule 19)

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

const home = installedIn()
const stateDirectory = home && join(dirname(home), "mcp-reconnect-state")
const controlFile = home && join(stateDirectory, "control.json")
const states = home && join(stateDirectory, "instances")

function openStore(directory) {
  const self = thisProcess()
  const hash = createHash("sha256").update(`${self.host} ${self.space} ${directory}`).digest("hex").slice(0, 16)
  const path = home && join(states, `${self.pid}-${hash}.json`)
  const temporary = home && join(states, `.${self.pid}-${hash}.tmp`)

  return {
    // Rule 18. Returns whether that went well. Synchronous, since nothing is left to be
    // undone then at disposal; the few hundred bytes are not synced, as no power
    // failure leaves their reader.
    save(state) {
      if (!home) return true
      const text = JSON.stringify({ format: STATE_FORMAT, version: VERSION, ...self, directory, ...state })
      try {
        fs.lstatSync(home) // who removed that one wants no more of us
        for (const made of [stateDirectory, states]) {
          try {
            fs.mkdirSync(made)
            fs.chmodSync(made, 0o700) // whatever the umask
          } catch {}
          if (!fs.lstatSync(made).isDirectory()) return false
        }
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

    // Whether the file is still there.
    saved() {
      return !home || isFile(path)
    },
  }
}

// Rule 19: {paused, retry: {at, servers, directories, use, force}}, whatever the file holds.
function readControl() {
  const content = home && readJSON(controlFile)
  const retry = typeof content?.paused === "boolean" ? content.retry : undefined
  const list = (value) => (Array.isArray(value) ? value : [])
  return {
    paused: content?.paused === true,
    retry: {
      at: Number(retry?.at) || 0,
      servers: list(retry?.servers),
      directories: list(retry?.directories),
      use: list(retry?.use),
      force: list(retry?.force),
    },
  }
}

// Follows the state directory, once for all residents of this process: it costs nothing
// until something changes there. Each of the listeners is then called with what control
// says, and returns whether its own file is still there.
const followed = { listeners: new Set(), stop: undefined, looking: false, timer: null, directory: undefined }

function followControl(listener) {
  if (!home) return () => {}
  followed.listeners.add(listener)
  if (!followed.stop) openWatch()
  return () => {
    followed.listeners.delete(listener)
    if (followed.listeners.size === 0) closeWatch()
  }
}

function openWatch() {
  followed.directory = identity()
  try {
    const watcher = fs.watch(stateDirectory, { persistent: false }, noteChange)
    followed.stop = () => watcher.close()
    watcher.on("error", lookNowAndThen)
    watcher.unref?.()
  } catch {
    lookNowAndThen() // for want of inotify watches, say
  }
}

function closeWatch() {
  clearTimeout(followed.timer)
  try {
    followed.stop?.()
  } catch {}
  Object.assign(followed, { stop: undefined, looking: false, timer: null })
}

function lookNowAndThen() {
  closeWatch()
  try {
    fs.watchFile(stateDirectory, { interval: WATCH_INTERVAL, persistent: false }, noteChange)
    Object.assign(followed, { stop: () => fs.unwatchFile(stateDirectory, noteChange), looking: true })
  } catch {}
}

// Which directory it is: the system gives a number again.
function identity() {
  try {
    const { ino, birthtimeMs } = fs.lstatSync(stateDirectory)
    return `${ino} ${birthtimeMs}`
  } catch {
    return undefined
  }
}

// Whether another directory stands there than the one that is watched.
function replaced() {
  return followed.stop !== undefined && !followed.looking && identity() !== followed.directory
}

// Bun tells of a temporary file and keeps silent of its renaming, if that follows within
// 16 ms: what counts is what is there a while later.
function noteChange() {
  followed.timer ??= setTimeout(() => {
    followed.timer = null
    const control = readControl()
    let there = true
    for (const listener of followed.listeners) {
      try {
        there = listener(control) && there
      } catch {}
    }
    if ((there && !replaced()) || followed.looking || !followed.stop) return
    // The directory was removed, or replaced. Not every Bun (up to OpenCode 1.3.2) can watch
    // one again that was made anew.
    lookNowAndThen()
    noteChange()
  }, STEER_DELAY)
  followed.timer?.unref?.()
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

function isFile(file) {
  try {
    return fs.lstatSync(file).isFile()
  } catch {
    return false
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
