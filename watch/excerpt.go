package watch

import (
	"bytes"
	"fmt"
	"io"
)

const (
	eventLimit  = 1 << 20  // of what is read of one event of a stream, in bytes
	streamLimit = 64 << 20 // of one event: OpenCode sends 10 MiB in one
)

// tooLong is the type that an event gets whose end is missing.
const tooLong = "mcp-reconnect.too-long"

// cut ends what is passed on of an event that is too long: wherever in a line that is,
// and the next one tells.
const cut = ":\nevent: " + tooLong + "\n"

// An excerpt is an event stream of whose events no more is passed on than eventLimit, so
// that nobody has to hold one of megabytes for the few words in it that matter. The rest
// is dropped as it arrives, and so is what belongs to no event. Every line ends in one way.
//
// It is passed on in large pieces, since whoever looks for the end of an event begins
// anew with each, and no piece has anything of two events in it: whoever has read one
// event holds nothing of the next.
type excerpt struct {
	source    io.Reader
	commented func() // called for each comment

	buffer  [16 << 10]byte
	in, out []byte // what is still to be looked at, and to be passed on
	whole   bool   // out is a piece
	size    int    // of the event so far
	midLine bool
	afterCR bool // whose line feed belongs to it
}

func (x *excerpt) Read(p []byte) (int, error) {
	for !x.whole {
		if len(x.in) == 0 {
			n, err := x.source.Read(x.buffer[:])
			if n == 0 && err != nil {
				return 0, err // what there is of an event is none
			}
			x.in = x.buffer[:n]
		}
		if err := x.filter(); err != nil {
			return 0, err
		}
	}
	n := copy(p, x.out)
	x.out = x.out[:copy(x.out, x.out[n:])]
	x.whole = len(x.out) > 0
	return n, nil
}

// filter goes through what was read, up to the end of a piece.
func (x *excerpt) filter() error {
	for len(x.in) > 0 && !x.whole {
		switch c := x.in[0]; {
		case c == '\n' && x.afterCR:
			x.afterCR, x.in = false, x.in[1:]
		case c == '\r', c == '\n':
			x.afterCR, x.in = c == '\r', x.in[1:]
			if !x.midLine {
				x.endEvent()
				continue
			}
			x.midLine = false
			if err := x.pass([]byte("\n")); err != nil {
				return err
			}
		default:
			if c == ':' && !x.midLine {
				x.commented()
			}
			x.afterCR, x.midLine = false, true
			length := bytes.IndexAny(x.in, "\r\n")
			if length < 0 {
				length = len(x.in)
			}
			part := x.in[:length]
			x.in = x.in[length:]
			if err := x.pass(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// endEvent passes on the empty line that ends an event, if there is one to end.
func (x *excerpt) endEvent() {
	if x.size > 0 {
		x.out = append(x.out, '\n')
		x.size, x.whole = 0, true
	}
}

// pass passes on a part of an event, unless that gets too long.
func (x *excerpt) pass(part []byte) error {
	const room = eventLimit - len(cut) - len("\n")
	before := x.size
	x.size += len(part)
	switch {
	case x.size <= room:
		x.out = append(x.out, part...)
	case before <= room:
		x.out = append(append(x.out, part[:room-before]...), cut...)
	case x.size > streamLimit:
		return fmt.Errorf("the server sends an event, or a line, of more than %d MiB", streamLimit>>20)
	}
	x.whole = len(x.out) >= len(x.buffer)
	return nil
}
