// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"muster.dev/muster/plugins/pb"
	"muster.dev/muster/plugins/session"
)

// member is a pod with a gang mark, as last seen and as last told to the server. stub.mu guards it.
type member struct {
	pod  *v1.Pod
	sent *pb.Pod
}

func (m *member) unbound() bool { return m.pod.Spec.NodeName == "" }

// listen registers the handlers and returns what says that they have seen the initial lists.
func (s *stub) listen(factory informers.SharedInformerFactory) ([]cache.InformerSynced, error) {
	pods, err := factory.Core().V1().Pods().Informer().AddEventHandler(s.podHandler())
	if err != nil {
		return nil, err
	}
	nodes, err := factory.Core().V1().Nodes().Informer().AddEventHandler(s.nodeHandler())
	if err != nil {
		return nil, err
	}
	lister := factory.Core().V1().Nodes().Lister()
	s.nodes = func() []*v1.Node {
		all, _ := lister.List(labels.Everything()) // it reads memory and has no errors
		return all
	}
	namespaces, err := factory.Core().V1().Namespaces().Informer().AddEventHandler(s.namespaceHandler())
	if err != nil {
		return nil, err
	}
	return []cache.InformerSynced{pods.HasSynced, nodes.HasSynced, namespaces.HasSynced}, nil
}

func (s *stub) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if pod, ok := obj.(*v1.Pod); ok {
				s.podSeen(nil, pod)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, _ := old.(*v1.Pod)
			if pod, ok := obj.(*v1.Pod); ok {
				s.podSeen(before, pod)
			}
		},
		DeleteFunc: func(obj any) {
			// After a break in the watch the informer knows only that the pod is gone, and what it was like before.
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				s.podDeleted(pod)
			}
		},
	}
}

// podSeen is called for every pod of the cluster, so it leaves early.
func (s *stub) podSeen(before, pod *v1.Pod) {
	if !s.profiles.Has(pod.Spec.SchedulerName) {
		return
	}
	if !marked(pod) {
		if before != nil && marked(before) && s.forget(pod.UID) {
			// Its marks were taken away. It is a plain pod now, and nothing else would wake it.
			s.handle.Activate(s.logger, map[string]*v1.Pod{podName(pod): pod})
		}
		return
	}
	if finished(pod) {
		s.forget(pod.UID)
		return
	}
	s.know(pod)
}

func (s *stub) podDeleted(pod *v1.Pod) {
	if s.profiles.Has(pod.Spec.SchedulerName) && marked(pod) {
		s.forget(pod.UID)
	}
	if pod.Spec.NodeName != "" {
		s.roomAppeared()
	}
}

// know keeps the pod and tells the server if anything it needs to know has changed.
func (s *stub) know(pod *v1.Pod) {
	message := slim(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	m, known := s.members[pod.UID]
	if !known {
		m = &member{}
		s.members[pod.UID] = m
		s.table.know(pod.UID)
	} else if m.unbound() {
		s.unbound.Add(-1)
	}
	m.pod = pod
	if m.unbound() {
		s.unbound.Add(1)
	} else {
		delete(s.waits, pod.UID) // bound: it is not binding any more
	}
	if !proto.Equal(m.sent, message) {
		m.sent = message
		s.client.Send(podFact(message))
	}
}

// forget drops a pod that is gone, and says whether it was known.
func (s *stub) forget(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, known := s.members[uid]
	if !known {
		return false
	}
	if m.unbound() {
		s.unbound.Add(-1)
	}
	delete(s.members, uid)
	delete(s.waits, uid)
	s.table.forget(uid)
	s.client.Send(goneFact(string(uid)))
	return true
}

// Open describes all there is to a new session. Deltas queue behind it, because they need the lock.
func (s *stub) Open(begin func(*pb.Hello, []*pb.Fact)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	members := make([]*member, 0, len(s.members))
	for _, m := range s.members {
		members = append(members, m)
	}
	// In a fixed order, so that the same cluster gives the same history.
	slices.SortFunc(members, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.sent.GetCreatedUnixNs(), b.sent.GetCreatedUnixNs()), cmp.Compare(a.sent.GetUid(), b.sent.GetUid()))
	})
	all := s.declarations()
	for _, m := range members {
		all = append(all, podFact(s.standing(m, now)))
	}
	begin(&pb.Hello{Contract: session.Contract, Epoch: s.epoch, SchedulerNames: sets.List(s.profiles)}, all)
}

// declarations are the facts of an opening that are not about pods, in a fixed order. The caller holds mu.
func (s *stub) declarations() (facts []*pb.Fact) {
	if s.sizing.sized > 0 {
		s.sizing.sent = sizeOf(s.nodes())
		facts = append(facts, capacityFact(s.sizing.sent))
	}
	for _, name := range slices.Sorted(maps.Keys(s.namespaces)) {
		facts = append(facts, namespaceFact(name, s.namespaces[name]))
	}
	objects := slices.SortedFunc(maps.Values(s.objects), func(a, b *pb.GangObject) int {
		return cmp.Or(cmp.Compare(a.GetCreatedUnixNs(), b.GetCreatedUnixNs()), cmp.Compare(a.GetUid(), b.GetUid()))
	})
	for _, object := range objects {
		facts = append(facts, objectFact(object))
	}
	return facts
}

// standing adds to the message of a pod where it stands in this process.
func (s *stub) standing(m *member, now time.Time) *pb.Pod {
	w := s.waits[m.pod.UID]
	if w == nil || w.phase == rejected {
		return m.sent
	}
	message := proto.CloneOf(m.sent)
	switch w.phase {
	case waiting:
		message.Standing = pb.Standing_STANDING_WAITING
		message.WaitedMs = now.Sub(w.since).Milliseconds()
	case binding:
		message.Standing = pb.Standing_STANDING_BINDING
	}
	return message
}

// Ready is called when the server has taken over. What it does not admit now is held by it, not by its absence.
func (s *stub) Ready() {
	s.table.holdAll(reasonUnjudged)
}

// Closed drops what the server granted. Pods that wait keep waiting: the next opening tells of them.
func (s *stub) Closed(error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.holdAll(reasonDisconnected)
}

func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
