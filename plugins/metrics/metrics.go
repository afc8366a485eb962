// SPDX-License-Identifier: Apache-2.0

// Package metrics holds what muster-scheduler counts beside kube-scheduler's own metrics.
// They appear on the scheduler's /metrics endpoint.
package metrics

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Extension points, as values of the label "point".
const (
	PreFilter  = "PreFilter"
	PostFilter = "PostFilter"
	Permit     = "Permit"
	Unreserve  = "Unreserve"
)

// Results of a message, as values of the label "result". Everything but Quiet was a round trip
// that the scheduling loop waited for.
const (
	Pass         = "pass"
	Wait         = "wait"
	Refuse       = "refuse"
	Timeout      = "timeout"
	Disconnected = "disconnected"
	Quiet        = "quiet"
)

var (
	// SessionConnected is 1 between the server's Welcome and the end of the session.
	SessionConnected = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "muster_session_connected",
		Help:           "1 while muster-server has welcomed this scheduler, 0 otherwise.",
		StabilityLevel: metrics.ALPHA,
	})
	// Calls counts the messages of the extension points.
	Calls = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "muster_calls_total",
		Help:           "Messages to muster-server by extension point and result; the result \"quiet\" marks those that waited for no reply.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"point", "result"})
	// CallDuration observes the round trips only.
	CallDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "muster_call_duration_seconds",
		Help:           "How long the scheduling loop waited for a reply of muster-server.",
		Buckets:        metrics.ExponentialBuckets(0.00005, 2, 15),
		StabilityLevel: metrics.ALPHA,
	}, []string{"point"})
	// FactsSent counts facts, not frames.
	FactsSent = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "muster_facts_sent_total",
		Help:           "Facts sent to muster-server, those of the opening included.",
		StabilityLevel: metrics.ALPHA,
	})
	// Directives counts what muster-server ordered.
	Directives = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "muster_directives_total",
		Help:           "Directives received from muster-server by kind.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"kind"})
)

var register sync.Once

// Register makes the metrics visible; it may be called any number of times.
func Register() {
	register.Do(func() {
		legacyregistry.MustRegister(SessionConnected, Calls, CallDuration, FactsSent, Directives)
	})
}
