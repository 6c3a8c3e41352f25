// ---- The pool ----------------------------------------------------------------
//
// What the engines of one OpenCode process share: the permissions to connect (rule 5),
// and whether to be careful with them (rule 15). Copies of this file may share one, so a
// slot holds what its engine does about it.

function createPool() {
  return {
    running: 0,
    careful: false, // one connect at a time, until one succeeds
    queue: [], // first come, first served
    granted: [], // slots of tries that waited for them and have not gone on yet
    pending: new Set(), // functions that do what an engine wants since something happened to it
  }
}

// A slot is the permission for one connect. go lets a try go on that waited for it.
function requestSlot(pool, go) {
  const slot = { go, held: false, released: false, waits: false }
  pool.queue.push(slot)
  grantSlots(pool)
  slot.waits = !slot.held
  return slot
}

function releaseSlot(pool, slot) {
  if (slot.released) return
  slot.released = true
  if (slot.held) pool.running--
  else pool.queue.splice(pool.queue.indexOf(slot), 1)
  grantSlots(pool)
}

function grantSlots(pool) {
  while (pool.queue.length > 0 && (pool.running === 0 || (pool.running < SETTINGS.concurrency && !pool.careful))) {
    const slot = pool.queue.shift()
    pool.running++
    slot.held = true
    if (slot.waits) pool.granted.push(slot)
  }
}

function stopBeingCareful(pool) {
  pool.careful = false
  grantSlots(pool)
}

// Lets the tries go on that got the slot they waited for: not before whoever gave it
// back has done what it was about to do.
function continueGranted(pool, now) {
  while (pool.granted.length > 0) pool.granted.shift().go(now)
}
