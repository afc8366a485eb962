// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"muster.dev/muster/plugins/pb"
)

var sigs, native = sources[0], sources[2]

// object is a PodGroup with this spec, decoded as the API machinery does it: whole numbers are int64.
func object(t *testing.T, from source, name, spec string) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.YAMLToJSON(fmt.Appendf(nil, `{apiVersion: %s, kind: PodGroup, spec: %s,
		metadata: {namespace: ns, name: %s, uid: uid-%s, creationTimestamp: "1970-01-01T00:16:40Z"}}`,
		from.resource.GroupVersion(), spec, name, name))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestAnObjectIsSentWhenItComesWhenItChangesAndWhenItGoes(t *testing.T) {
	f := connected(t)
	handler := f.stub.objectHandler(sigs)
	seen := object(t, sigs, "train", "{minMember: 3, scheduleTimeoutSeconds: 60}")
	seen.SetAnnotations(map[string]string{"gang.scheduling.koordinator.sh/mode": "NonStrict", "other": "x"})
	handler.OnAdd(seen, false)
	want := &pb.GangObject{
		Source: pb.GangSource_GANG_SOURCE_SIGS, Namespace: "ns", Name: "train", Uid: "uid-train", CreatedUnixNs: time.Unix(1000, 0).UnixNano(),
		Min: proto.Int64(3), TimeoutSeconds: proto.Int64(60), Annotations: map[string]string{"gang.scheduling.koordinator.sh/mode": "NonStrict"},
	}
	if got := f.nextFact().GetGangObject(); !proto.Equal(got, want) {
		t.Fatalf("got %v", got)
	}

	same := seen.DeepCopy()
	same.SetResourceVersion("2")
	same.Object["status"] = map[string]any{"phase": "Running"}
	handler.OnUpdate(seen, same)
	f.session.Silent(t)

	again := object(t, sigs, "train", "{minMember: 3, scheduleTimeoutSeconds: 60}")
	again.SetUID("another")
	handler.OnUpdate(same, again)
	if got := f.nextFact().GetGangObject(); got.GetUid() != "another" {
		t.Fatalf("got %v", got)
	}
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/train", Obj: again})
	if got := f.nextFact().GetGangObjectGone(); got.GetName() != "train" || got.GetUid() != "another" || got.GetSource() != pb.GangSource_GANG_SOURCE_SIGS {
		t.Fatalf("got %v", got)
	}
	handler.OnDelete(again)
	handler.OnAdd("nonsense", false)
	f.session.Silent(t)
}

func TestFieldsAreReadAsWrittenAndWhatCannotBeReadIsToldAsSuch(t *testing.T) {
	for _, test := range []struct {
		from source
		spec string
		want *pb.GangObject
	}{
		{sigs, `{}`, &pb.GangObject{}},
		{sigs, `{minMember: 0, scheduleTimeoutSeconds: -1}`, &pb.GangObject{Min: proto.Int64(0), TimeoutSeconds: proto.Int64(-1)}},
		{sigs, `{minMember: null, minResources: null}`, &pb.GangObject{}},
		{sigs, `{minMember: "3", scheduleTimeoutSeconds: 1.5}`, &pb.GangObject{Unreadable: map[string]string{"spec.minMember": `"3"`, "spec.scheduleTimeoutSeconds": "1.5"}}},
		{sigs, `{minResources: {cpu: 1500m, memory: 2Gi, pods: 3, nvidia.com/gpu: "-1"}}`, &pb.GangObject{
			MinResources: map[string]int64{"cpu": 1500, "memory": 2 << 30 * 1000, "pods": 3000, "nvidia.com/gpu": -1000},
		}},
		{sigs, `{minResources: {memory: 100E, storage: "-100E"}}`, &pb.GangObject{
			MinResources: map[string]int64{"memory": math.MaxInt64, "storage": math.MinInt64},
		}},
		{sigs, `{minResources: {cpu: lots, memory: {a: b}}}`, &pb.GangObject{
			Unreadable: map[string]string{"spec.minResources.cpu": `"lots"`, "spec.minResources.memory": `{"a":"b"}`},
		}},
		{sigs, `{minResources: 3}`, &pb.GangObject{Unreadable: map[string]string{"spec.minResources": "3"}}},
		{sigs, `[1]`, &pb.GangObject{Unreadable: map[string]string{
			"spec.minMember": "[1]", "spec.scheduleTimeoutSeconds": "[1]", "spec.minResources": "[1]",
		}}},
		{native, `{schedulingPolicy: {gang: {minCount: 4}}, minMember: 9}`, &pb.GangObject{Min: proto.Int64(4)}},
		{native, `{schedulingPolicy: {basic: {}}}`, &pb.GangObject{}},
	} {
		got := slimObject(test.from, object(t, test.from, "g", test.spec))
		test.want.Source, test.want.Namespace, test.want.Name, test.want.Uid, test.want.CreatedUnixNs = got.GetSource(), "ns", "g", "uid-g", got.GetCreatedUnixNs()
		if !proto.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.spec, got, test.want)
		}
	}
	long := slimObject(sigs, object(t, sigs, "g", fmt.Sprintf("{minMember: %q}", string(make([]rune, 400)))))
	if n := len(long.GetUnreadable()["spec.minMember"]); n > maxUnreadable {
		t.Errorf("%d bytes are told", n)
	}
}

func node(name, cpu string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{"cpu": resource.MustParse(cpu)}},
	}
}

func TestTheSizeOfTheClusterIsToldOnlyToObjectsThatNeedItAndBeforeThem(t *testing.T) {
	f := connected(t)
	nodes := []*v1.Node{node("a", "1500m"), node("b", "2")}
	f.stub.nodes = func() []*v1.Node { return nodes }
	f.stub.nodeHandler().OnAdd(nodes[0], false)
	f.session.Silent(t)

	handler := f.stub.objectHandler(sigs)
	sized := object(t, sigs, "sized", `{minMember: 1, minResources: {cpu: 8}}`)
	handler.OnAdd(sized, false)
	facts := f.facts(2)
	if got := facts[0].GetCapacity().GetAllocatable(); fmt.Sprint(got) != "map[cpu:3500]" {
		t.Fatalf("got %v", got)
	}
	if facts[1].GetGangObject() == nil {
		t.Fatalf("got %v", facts[1])
	}

	f.stub.nodeHandler().OnUpdate(nodes[0], nodes[0])
	f.session.Silent(t)
	cordoned := nodes[1].DeepCopy()
	cordoned.Spec.Unschedulable = true
	before := nodes[1]
	nodes[1] = cordoned
	for range 1000 {
		f.stub.nodeHandler().OnUpdate(before, cordoned)
	}
	if got := f.nextFact().GetCapacity().GetAllocatable(); fmt.Sprint(got) != "map[cpu:1500]" {
		t.Fatalf("got %v", got)
	}
	f.session.Silent(t)

	handler.OnDelete(sized)
	f.nextFact()
	nodes[1] = before
	f.stub.sendCapacity()
	f.session.Silent(t)
}

func TestAmountsThatDoNotFitAreTheLargestNumber(t *testing.T) {
	size := sizeOf([]*v1.Node{node("a", "9E"), node("b", "9E"), node("c", "1")})
	if got := size.GetAllocatable()["cpu"]; got != math.MaxInt64 {
		t.Fatalf("got %d", got)
	}
}

func TestOnlyNamespacesWithGangLabelsAreTold(t *testing.T) {
	f := connected(t)
	handler := f.stub.namespaceHandler()
	plain := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"a": "b"}}}
	handler.OnAdd(plain, false)
	f.session.Silent(t)
	consents := plain.DeepCopy()
	consents.Labels["gang.muster.dev/cross-namespace-groups"] = "allowed"
	handler.OnUpdate(plain, consents)
	want := map[string]string{"gang.muster.dev/cross-namespace-groups": "allowed"}
	if got := f.nextFact().GetNamespace(); got.GetName() != "ns" || fmt.Sprint(got.GetLabels()) != fmt.Sprint(want) {
		t.Fatalf("got %v", got)
	}
	handler.OnUpdate(consents, consents)
	f.session.Silent(t)
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns", Obj: consents})
	if got := f.nextFact().GetNamespace(); got.GetName() != "ns" || len(got.GetLabels()) != 0 {
		t.Fatalf("got %v", got)
	}
	handler.OnDelete(plain)
	f.session.Silent(t)
}

func TestAnOpeningHasObjectsNamespacesAndTheSizeOfTheCluster(t *testing.T) {
	f := connected(t, gangPod("a"))
	f.stub.nodes = func() []*v1.Node { return []*v1.Node{node("a", "4")} }
	f.stub.objectHandler(sigs).OnAdd(object(t, sigs, "sized", `{minMember: 1, minResources: {cpu: 8}}`), false)
	f.stub.objectHandler(native).OnAdd(object(t, native, "own", `{schedulingPolicy: {gang: {minCount: 2}}}`), false)
	f.stub.namespaceHas("ns", map[string]string{"gang.muster.dev/cross-namespace-groups": "allowed"})
	f.session.End(status.Error(codes.Unavailable, "again"))
	var kinds []string
	for _, fact := range f.accept() {
		kinds = append(kinds, fmt.Sprintf("%T", fact.GetFact()))
	}
	want := "[*pb.Fact_Capacity *pb.Fact_Namespace *pb.Fact_GangObject *pb.Fact_GangObject *pb.Fact_Pod]"
	if fmt.Sprint(kinds) != want {
		t.Fatalf("got %v, want %v", kinds, want)
	}
}

// facts returns the next facts, however many frames they came in.
func (f *fixture) facts(n int) (facts []*pb.Fact) {
	f.Helper()
	for len(facts) < n {
		facts = append(facts, f.session.Next(f).GetFacts().GetFacts()...)
	}
	return facts
}

func TestAPodOfANativePodGroupIsMarked(t *testing.T) {
	f := connected(t)
	pod := plainPod("a")
	name := "own"
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
	f.stub.podHandler().OnAdd(pod, false)
	if got := f.nextFact().GetPod().GetSchedulingGroup(); got != "own" {
		t.Fatalf("got %q", got)
	}
}
