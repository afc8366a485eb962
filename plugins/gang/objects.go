// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"muster.dev/muster/plugins/pb"
)

// source is a kind of object that declares gangs. What its fields mean is decided by the server.
type source struct {
	kind     pb.GangSource
	resource schema.GroupVersionResource
	// minimum is the path of the field that holds it.
	minimum []string
}

var sources = []source{
	{pb.GangSource_GANG_SOURCE_SIGS, podGroups("scheduling.sigs.k8s.io", "v1alpha1"), []string{"spec", "minMember"}},
	{pb.GangSource_GANG_SOURCE_X_K8S, podGroups("scheduling.x-k8s.io", "v1alpha1"), []string{"spec", "minMember"}},
	{pb.GangSource_GANG_SOURCE_NATIVE, podGroups("scheduling.k8s.io", "v1beta1"), []string{"spec", "schedulingPolicy", "gang", "minCount"}},
}

func podGroups(group, version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: "podgroups"}
}

// objectKey is the place of an object; another one may have it after it.
type objectKey struct {
	kind            pb.GangSource
	namespace, name string
}

// maxUnreadable bounds what is told of a field that holds something else than it should.
const maxUnreadable = 256

func (s *stub) objectHandler(from source) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if object, ok := obj.(*unstructured.Unstructured); ok {
				s.objectSeen(slimObject(from, object))
			}
		},
		UpdateFunc: func(_, obj any) {
			if object, ok := obj.(*unstructured.Unstructured); ok {
				s.objectSeen(slimObject(from, object))
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if object, ok := obj.(*unstructured.Unstructured); ok {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.objectGone(objectKey{from.kind, object.GetNamespace(), object.GetName()})
			}
		},
	}
}

// objectSeen keeps the object and tells the server if anything it needs to know has changed.
func (s *stub) objectSeen(message *pb.GangObject) {
	key := objectKey{message.GetSource(), message.GetNamespace(), message.GetName()}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.objects[key]
	if proto.Equal(before, message) {
		return
	}
	s.objects[key] = message
	s.countSized(before, message)
	s.client.Send(objectFact(message))
}

func objectFact(message *pb.GangObject) *pb.Fact {
	return &pb.Fact{Fact: &pb.Fact_GangObject{GangObject: message}}
}

// objectGone drops an object. The caller holds mu.
func (s *stub) objectGone(key objectKey) {
	known := s.objects[key]
	if known == nil {
		return
	}
	delete(s.objects, key)
	s.countSized(known, nil)
	s.client.Send(&pb.Fact{Fact: &pb.Fact_GangObjectGone{GangObjectGone: &pb.GangObjectGone{
		Source: key.kind, Namespace: key.namespace, Name: key.name, Uid: known.GetUid(),
	}}})
}

// objectsGone drops all objects of a kind that is no longer served.
func (s *stub) objectsGone(kind pb.GangSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.objects {
		if key.kind == kind {
			s.objectGone(key)
		}
	}
}

// slimObject is what the server needs of an object, and no more.
func slimObject(from source, object *unstructured.Unstructured) *pb.GangObject {
	r := fieldReader{object: object.Object}
	message := &pb.GangObject{
		Source:        from.kind,
		Namespace:     object.GetNamespace(),
		Name:          object.GetName(),
		Uid:           string(object.GetUID()),
		CreatedUnixNs: object.GetCreationTimestamp().UnixNano(),
		Annotations:   pick(object.GetAnnotations(), annotationPrefixes),
		Min:           r.number(from.minimum...),
	}
	if from.kind != pb.GangSource_GANG_SOURCE_NATIVE {
		message.TimeoutSeconds = r.number("spec", "scheduleTimeoutSeconds")
		message.MinResources = r.quantities("spec", "minResources")
	}
	message.Unreadable = r.unreadable
	return message
}

// fieldReader reads fields of an object whose definition may not be ours, and notes what it cannot read.
type fieldReader struct {
	object     map[string]any
	unreadable map[string]string
}

// field returns what is at the path, or nil.
func (r *fieldReader) field(path ...string) any {
	value, _, err := unstructured.NestedFieldNoCopy(r.object, path...)
	if err != nil {
		r.note(r.object["spec"], path...)
		return nil
	}
	return value
}

func (r *fieldReader) number(path ...string) *int64 {
	switch value := r.field(path...).(type) {
	case nil:
		return nil
	case int64:
		return &value
	default:
		r.note(value, path...)
		return nil
	}
}

// quantities returns amounts in thousandths.
func (r *fieldReader) quantities(path ...string) map[string]int64 {
	var amounts map[string]int64
	switch value := r.field(path...).(type) {
	case nil:
	case map[string]any:
		for name, written := range value {
			amount, err := resource.ParseQuantity(fmt.Sprint(written))
			if err != nil {
				r.note(written, append(path[:len(path):len(path)], name)...)
				continue
			}
			if amounts == nil {
				amounts = map[string]int64{}
			}
			amounts[name] = thousandths(amount)
		}
	default:
		r.note(value, path...)
	}
	return amounts
}

func (r *fieldReader) note(value any, path ...string) {
	text, err := json.Marshal(value)
	if err != nil {
		text = []byte("?")
	}
	if r.unreadable == nil {
		r.unreadable = map[string]string{}
	}
	r.unreadable[strings.Join(path, ".")] = truncate(string(text), maxUnreadable)
}

// The amounts between which thousandths fit.
var (
	mostThousandths  = *resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI)
	leastThousandths = *resource.NewMilliQuantity(math.MinInt64, resource.DecimalSI)
)

// thousandths of a quantity. One that does not fit is the largest number there is, instead of any number at all.
func thousandths(amount resource.Quantity) int64 {
	switch {
	case amount.Cmp(mostThousandths) > 0:
		return math.MaxInt64
	case amount.Cmp(leastThousandths) < 0:
		return math.MinInt64
	}
	return amount.MilliValue()
}
