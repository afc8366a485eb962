// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"errors"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"muster.dev/muster/plugins/pb"
)

// catalogue is what a cluster serves.
type catalogue struct {
	mu     sync.Mutex
	served map[pb.GangSource]bool
	err    error
}

func (c *catalogue) set(kind pb.GangSource, served bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served[kind] = served
}

func (c *catalogue) ask(from source) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served[from.kind], c.err
}

func (f *fixture) feed(c *catalogue, objects ...runtime.Object) *objectFeed {
	kinds := map[schema.GroupVersionResource]string{}
	for _, from := range sources {
		kinds[from.resource] = "PodGroupList"
	}
	return &objectFeed{
		stub: f.stub, served: c.ask, client: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...),
		watches: map[pb.GangSource]*objectWatch{}, logged: map[pb.GangSource]string{},
	}
}

func TestAKindIsWatchedAsSoonAsItIsServedAndDroppedWhenItIsNoMore(t *testing.T) {
	f := connected(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &catalogue{served: map[pb.GangSource]bool{sigs.kind: true}}
	feed := f.feed(c, object(t, sigs, "early", "{minMember: 1}"), object(t, native, "late", "{schedulingPolicy: {gang: {minCount: 2}}}"))
	feed.start(ctx)
	if got := f.nextFact().GetGangObject().GetName(); got != "early" {
		t.Fatalf("got %q", got)
	}
	f.session.Silent(t)

	c.set(native.kind, true)
	feed.look(ctx, false)
	if got := f.nextFact().GetGangObject().GetName(); got != "late" {
		t.Fatalf("got %q", got)
	}

	// An API server that does not know is not one that has nothing, and one miss may be a server that just starts.
	c.set(sigs.kind, false)
	c.err = errors.New("unavailable")
	for range 10 {
		feed.look(ctx, true)
	}
	c.err = nil
	feed.look(ctx, true)
	f.session.Silent(t)
	feed.look(ctx, false)
	feed.look(ctx, false)
	if got := f.nextFact().GetGangObjectGone().GetName(); got != "early" {
		t.Fatalf("got %q", got)
	}
	f.session.Silent(t)

	c.set(sigs.kind, true)
	feed.look(ctx, false)
	if got := f.nextFact().GetGangObject().GetName(); got != "early" {
		t.Fatalf("got %q", got)
	}
}

func TestAGroupVersionIsNotEnoughTheResourceMustBeServed(t *testing.T) {
	lookup := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}
	served := servedBy(lookup)
	check := func(want bool) {
		t.Helper()
		if got, err := served(sigs); got != want || err != nil {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	check(false)
	list := &metav1.APIResourceList{GroupVersion: sigs.resource.GroupVersion().String(), APIResources: []metav1.APIResource{{Name: "elasticquotas"}}}
	lookup.Resources = append(lookup.Resources, list)
	check(false)
	list.APIResources = append(list.APIResources, metav1.APIResource{Name: "podgroups"})
	check(true)
}
