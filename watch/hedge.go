package watch

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// hedgeAfter is how long a request for a stream has for its answer until it is sent once
// more beside it: an OpenCode that is starting takes connections that it never answers.
// Each further one follows after twice the time, so that a slow server gets few.
const hedgeAfter = 2 * time.Second

// An answer is what came of a request, and how long that one took.
type answer struct {
	n    int // which of the requests it was
	res  *http.Response
	err  error
	took time.Duration
}

// hedged sends a request, and again 2, 6, 14 … s later while none is answered. The first
// answer is taken, whatever it says. The others are canceled, and closed if they come all
// the same. The one that is taken ends with ctx. The goroutines are counted in calls.
func hedged(ctx context.Context, calls *sync.WaitGroup, send func(context.Context) (*http.Response, error)) answer {
	answers := make(chan answer)
	taken := make(chan struct{})
	defer close(taken)
	var cancels []context.CancelFunc // of each request
	for wait := hedgeAfter; ; wait *= 2 {
		n, asked := len(cancels), time.Now()
		one, cancel := context.WithCancel(ctx)
		cancels = append(cancels, cancel)
		calls.Go(func() {
			res, err := send(one)
			select {
			case answers <- answer{n, res, err, time.Since(asked)}:
			case <-taken:
				cancel()
				if err == nil {
					res.Body.Close()
				}
			}
		})
		select {
		case first := <-answers:
			for n, cancel := range cancels {
				if n != first.n {
					cancel()
				}
			}
			return first
		case <-ctx.Done():
			return answer{err: ctx.Err()}
		case <-time.After(wait):
		}
	}
}
