package opencode

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// The names under which a configuration knows the model.
const (
	ProviderID = "fake"
	ModelID    = "m"
)

// A Model is a language model for OpenCode: an HTTP server on loopback that
// speaks the chat completions of OpenAI. It answers "done", but to a prompt that
// says "call TOOL" by calling that tool first. "call ONE and TWO" calls two tools at
// the same time, "call ONE then TWO" one after the other, and "call ONE or TWO" the
// first that it is offered, or the last.
type Model struct {
	server   *httptest.Server
	mu       sync.Mutex
	requests []Request
}

// A Request is what OpenCode asked of the model, with tools to choose from.
type Request struct {
	At     time.Time
	Prompt string   // what the user said last, as JSON
	Tools  []string // that are offered
	Said   []string // what the tools returned that were called since
}

// NewModel starts a model; Close ends it.
func NewModel() *Model {
	m := &Model{}
	m.server = httptest.NewServer(m)
	return m
}

func (m *Model) Close() { m.server.Close() }

// Provider is the "provider" part of a configuration that knows the model.
func (m *Model) Provider() map[string]any {
	return map[string]any{ProviderID: map[string]any{
		"npm":     "@ai-sdk/openai-compatible",
		"options": map[string]any{"baseURL": m.server.URL + "/v1", "apiKey": "x"},
		"models":  map[string]any{ModelID: map[string]any{"name": "Fake", "tool_call": true}},
	}}
}

// Requests returns the requests that offered tools, in their order. A prompt whose
// tools are called has several.
func (m *Model) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Tools returns the names of the tools that the model was offered last.
func (m *Model) Tools() []string {
	requests := m.Requests()
	if len(requests) == 0 {
		return nil
	}
	return requests[len(requests)-1].Tools
}

// Said returns what the tools that the model called returned.
func (m *Model) Said() []string {
	var said []string
	for _, request := range m.Requests() {
		said = append(said, request.Said...)
	}
	return said
}

func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Tools []struct {
			Function struct{ Name string }
		}
		Messages []struct {
			Role      string
			Content   json.RawMessage // a text, or a list of parts
			ToolCalls []any           `json:"tool_calls"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asked := Request{At: time.Now()}
	for _, tool := range request.Tools {
		asked.Tools = append(asked.Tools, tool.Function.Name)
	}
	step := 0 // how often the model called tools for this prompt
	for _, message := range request.Messages {
		switch message.Role {
		case "user":
			asked.Prompt, asked.Said, step = string(message.Content), nil, 0
		case "assistant":
			if len(message.ToolCalls) > 0 {
				step++
			}
		case "tool":
			asked.Said = append(asked.Said, string(message.Content))
		}
	}
	delta, reason := map[string]any{"role": "assistant", "content": "done"}, "stop"
	if len(asked.Tools) > 0 { // titles are asked for without any
		m.mu.Lock()
		m.requests = append(m.requests, asked)
		m.mu.Unlock()
		if steps := calls(asked.Prompt, asked.Tools); step < len(steps) {
			var toolCalls []any
			for n, tool := range steps[step] {
				toolCalls = append(toolCalls, map[string]any{
					"index": n, "id": fmt.Sprintf("call_%d_%d", step, n), "type": "function",
					"function": map[string]any{"name": tool, "arguments": `{"text":"hello","message":"hello"}`},
				})
			}
			delta, reason = map[string]any{"role": "assistant", "tool_calls": toolCalls}, "tool_calls"
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []map[string]any{
		{"index": 0, "delta": delta},
		{"index": 0, "delta": map[string]any{}, "finish_reason": reason},
	} {
		chunk, _ := json.Marshal(map[string]any{"id": "1", "object": "chat.completion.chunk", "created": 1, "model": ModelID, "choices": []any{choice}})
		fmt.Fprintf(w, "data: %s\n\n", chunk)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// calls returns the tools that a prompt asks for: those of a step are called at the same time.
func calls(prompt string, offered []string) [][]string {
	_, after, ok := strings.Cut(prompt, "call ")
	if !ok {
		return nil
	}
	words := strings.Fields(strings.NewReplacer(`"`, " ", `\`, " ").Replace(after))
	var steps [][]string
	for n := 0; n < len(words); n += 2 {
		tool := strings.TrimRight(words[n], ".")
		switch {
		case n == 0, words[n-1] == "then":
			steps = append(steps, []string{tool})
		case words[n-1] == "and":
			last := &steps[len(steps)-1]
			*last = append(*last, tool)
		case words[n-1] == "or":
			step := steps[len(steps)-1]
			if last := &step[len(step)-1]; !slices.Contains(offered, *last) {
				*last = tool
			}
		default:
			return steps
		}
	}
	return steps
}
