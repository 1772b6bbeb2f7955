// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"preflight/internal/hostsys"
	"preflight/remote"
)

// partAnswer is the name of the part in an answer that has only one part.
const partAnswer = "answer"

// Request is a question that an agent answers once.
type Request[Question, Answer any] struct{ name string }

// request defines a request. On the node, the question's Run method computes the answer.
func request[Question interface {
	Run(context.Context) Answer
}, Answer any](name string) Request[Question, Answer] {
	methods[name] = func(ctx context.Context, params json.RawMessage, reply remote.Reply) error {
		question, err := decode[Question](params)
		if err != nil {
			return err
		}
		return reply(partAnswer, Encode(question.Run(ctx)), true)
	}
	return Request[Question, Answer]{name}
}

// Ask sends the question and waits for the answer. If the agent is lost, the error is a
// *remote.Error.
func (r Request[Question, Answer]) Ask(ctx context.Context, at *remote.Agent, question Question) (answer Answer, err error) {
	malformed := errors.New("the agent gave no answer")
	err = at.Call(ctx, r.name, question, func(_ string, body json.RawMessage) {
		answer, malformed = decode[Answer](body)
	})
	return answer, cmp.Or(err, malformed)
}

// Service is work that an agent starts when it answers and continues until it is cancelled.
type Service[Question, Answer any] struct{ name string }

// service defines a service. run must call ready as soon as the service is ready.
func service[Question, Answer any](name string, run func(ctx context.Context, question Question, ready func(Answer) error) error) Service[Question, Answer] {
	methods[name] = func(ctx context.Context, params json.RawMessage, reply remote.Reply) error {
		question, err := decode[Question](params)
		if err != nil {
			return err
		}
		return run(ctx, question, func(answer Answer) error { return reply(partAnswer, Encode(answer), false) })
	}
	return Service[Question, Answer]{name}
}

// Start starts the service, which runs until ctx ends. Start returns as soon as the agent has
// answered or has reported why it cannot answer. After limit it returns [remote.ErrNoAnswer].
// Further answers go to later, which may be nil.
func (s Service[Question, Answer]) Start(ctx context.Context, at *remote.Agent, question Question, limit time.Duration, later func(Answer)) (Answer, error) {
	type outcome struct {
		answer Answer
		err    error
	}
	first := make(chan outcome, 1) // buffered, so that the call can end even if no goroutine receives its result
	go func() {
		answered := false
		err := at.Call(ctx, s.name, question, func(_ string, body json.RawMessage) {
			var o outcome
			o.answer, o.err = decode[Answer](body)
			switch {
			case !answered:
				answered = true
				first <- o
			case o.err == nil && later != nil:
				later(o.answer)
			}
		})
		if !answered {
			first <- outcome{err: err}
		}
	}()
	w := hostsys.BeginWait()
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case o := <-first:
		return o.answer, o.err
	case <-waiting.Done():
		if ctx.Err() != nil { // the call ends with ctx and reports the reason
			o := <-first
			return o.answer, o.err
		}
		return outcome{}.answer, remote.NoAnswer(s.name, limit, w)
	}
}
