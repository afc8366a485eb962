// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"muster.dev/muster/plugins/pb"
)

func (s *stub) namespaceHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.namespaceSeen(obj) },
		UpdateFunc: func(_, obj any) { s.namespaceSeen(obj) },
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if namespace, ok := obj.(*v1.Namespace); ok {
				s.namespaceHas(namespace.Name, nil)
			}
		},
	}
}

func (s *stub) namespaceSeen(obj any) {
	if namespace, ok := obj.(*v1.Namespace); ok {
		s.namespaceHas(namespace.Name, pick(namespace.Labels, namespacePrefixes))
	}
}

// namespaceHas keeps the gang labels of a namespace, of the few that have any, and tells the server if they changed.
func (s *stub) namespaceHas(name string, labels map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if maps.Equal(s.namespaces[name], labels) {
		return
	}
	if len(labels) == 0 {
		delete(s.namespaces, name)
	} else {
		s.namespaces[name] = labels
	}
	s.client.Send(namespaceFact(name, labels))
}

func namespaceFact(name string, labels map[string]string) *pb.Fact {
	return &pb.Fact{Fact: &pb.Fact_Namespace{Namespace: &pb.Namespace{Name: name, Labels: labels}}}
}
