// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"muster.dev/muster/plugins/pb"
)

func queued(pod *v1.Pod) *framework.QueuedPodInfo {
	return &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: pod}}
}

// group stands for an entity of the native API that has no pod.
type group struct {
	fwk.QueuedEntityInfo
	priority int32
	since    time.Time
}

func (g *group) GetPriority() int32      { return g.priority }
func (g *group) GetTimestamp() time.Time { return g.since }

// randomEntities draws few different values, so that ties are frequent.
func randomEntities(f *fixture, random *rand.Rand, n int) []fwk.QueuedEntityInfo {
	var all []fwk.QueuedEntityInfo
	for i := range n {
		priority := random.Int32N(2)
		since := time.Unix(1000, random.Int64N(2))
		if random.IntN(5) == 0 {
			all = append(all, &group{priority: priority, since: since})
			continue
		}
		pod := gangPod("p")
		pod.UID = types.UID(rune('A' + i))
		pod.Spec.Priority = &priority
		pod.CreationTimestamp = metav1.NewTime(time.Unix(1000, random.Int64N(2)))
		if random.IntN(3) > 0 {
			f.stub.table.know(pod.UID)
			f.stub.table.admit(&pb.Admit{Members: []*pb.Admission{{Uid: string(pod.UID), Key: &pb.SortKey{
				Priority: priority, CreatedUnixNs: time.Unix(1000, random.Int64N(2)).UnixNano(),
				Gang: []string{"ns/a", "ns/b"}[random.IntN(2)], Index: random.Int64N(2),
			}}}})
		}
		info := queued(pod)
		info.Timestamp = since
		all = append(all, info)
	}
	return all
}

func TestLessIsAStrictWeakOrder(t *testing.T) {
	for seed := range uint64(200) {
		f := &fixture{T: t, plugin: &Plugin{stub: &stub{table: newTable()}}}
		f.stub = f.plugin.stub
		all := randomEntities(f, rand.New(rand.NewPCG(seed, 1)), 12)
		less := f.plugin.Less
		same := func(a, b fwk.QueuedEntityInfo) bool { return !less(a, b) && !less(b, a) }
		for _, a := range all {
			if less(a, a) {
				t.Fatal("an entity is before itself")
			}
			for _, b := range all {
				if less(a, b) && less(b, a) {
					t.Fatal("two entities are each before the other")
				}
				for _, c := range all {
					if less(a, b) && less(b, c) && !less(a, c) {
						t.Fatal("before is not transitive")
					}
					if same(a, b) && same(b, c) && !same(a, c) {
						t.Fatal("neither before nor after is not transitive")
					}
				}
			}
		}
	}
}

func TestLessOrdersByPriorityCreationGangIndexAndTimeInTheQueue(t *testing.T) {
	f := disconnected(t)
	key := func(name string, priority int32, created int64, gang string, index int64) fwk.QueuedEntityInfo {
		pod := gangPod(name)
		f.stub.table.know(pod.UID)
		f.stub.table.admit(&pb.Admit{Members: []*pb.Admission{{Uid: string(pod.UID), Key: &pb.SortKey{Priority: priority, CreatedUnixNs: created, Gang: gang, Index: index}}}})
		return queued(pod)
	}
	at := func(name string, priority int32, created, since int64) fwk.QueuedEntityInfo {
		pod := plainPod(name)
		pod.Spec.Priority, pod.CreationTimestamp = &priority, metav1.NewTime(time.Unix(0, created))
		info := queued(pod)
		info.Timestamp = time.Unix(since, 0)
		return info
	}
	want := []fwk.QueuedEntityInfo{
		key("high", 9, 500, "z", 3),
		at("plain-first", 5, 100, 1),
		at("plain-second", 5, 100, 2),
		key("a0", 5, 100, "a", 0),
		key("a1", 5, 100, "a", 1),
		key("b0", 5, 100, "b", 0),
		at("younger", 5, 101, 0),
		key("low", 1, 1, "a", 0),
	}
	got := slices.Clone(want)
	rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	slices.SortFunc(got, func(a, b fwk.QueuedEntityInfo) int {
		switch {
		case f.plugin.Less(a, b):
			return -1
		case f.plugin.Less(b, a):
			return 1
		}
		return 0
	})
	if !slices.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
}

func TestLessNeverPanicsOnEntitiesWithoutAPod(t *testing.T) {
	f := disconnected(t)
	all := []fwk.QueuedEntityInfo{
		nil, &group{}, &framework.QueuedPodInfo{}, &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{}}, queued(plainPod("a")), queued(gangPod("b")),
	}
	for _, a := range all {
		for _, b := range all {
			if f.plugin.Less(a, b) && f.plugin.Less(b, a) {
				t.Fatalf("%v and %v are each before the other", a, b)
			}
		}
	}
}

func TestASortKeyNeverChangesWhileItsPodExists(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	f.admit(0, pod)
	first := f.stub.table.key(pod.UID)
	d := admitOf(0, pod)
	d.GetAdmit().Members[0].Key = &pb.SortKey{Priority: 77}
	f.session.Direct(t, d, holdOf("x", pod))
	f.woken(1)
	f.stub.Closed(nil)
	if got := f.stub.table.key(pod.UID); got == nil || *got != *first {
		t.Fatalf("the key went from %v to %v", first, got)
	}
}
