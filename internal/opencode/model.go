package opencode

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// The names under which a configuration knows the model.
const (
	ProviderID = "fake"
	ModelID    = "m"
)

// A Model is a language model for OpenCode: an HTTP server on loopback that
// speaks the chat completions of OpenAI. It answers "done", but to a prompt of
// the form "call TOOL" by calling that tool first.
type Model struct {
	server *httptest.Server
	mu     sync.Mutex
	tools  []string // offered in the last request
	said   []string // what the tools returned
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

// Tools returns the names of the tools that the model was offered last.
func (m *Model) Tools() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.tools)
}

// Said returns what the tools that the model called returned.
func (m *Model) Said() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.said)
}

func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Tools []struct {
			Function struct{ Name string }
		}
		Messages []struct {
			Role    string
			Content json.RawMessage // a text, or a list of parts
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var tools, said []string
	for _, tool := range request.Tools {
		tools = append(tools, tool.Function.Name)
	}
	var prompt string
	for _, message := range request.Messages {
		switch message.Role {
		case "user":
			prompt, said = string(message.Content), nil
		case "tool":
			said = append(said, string(message.Content))
		}
	}
	m.mu.Lock()
	if len(tools) > 0 { // titles are asked for without any
		m.tools = tools
	}
	m.said = append(m.said, said...)
	m.mu.Unlock()

	delta, reason := map[string]any{"role": "assistant", "content": "done"}, "stop"
	if _, tool, ok := strings.Cut(prompt, "call "); ok && len(tools) > 0 && len(said) == 0 {
		tool = strings.TrimRight(strings.Fields(strings.NewReplacer(`"`, " ", `\`, " ").Replace(tool))[0], ".")
		reason = "tool_calls"
		delta = map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
			"index": 0, "id": "call_1", "type": "function",
			"function": map[string]any{"name": tool, "arguments": `{"text":"hello"}`},
		}}}
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
