// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"muster.dev/muster/plugins/pb"
)

const (
	// How often it is asked whether a kind is served that was not: so long a new definition goes unnoticed.
	lookInterval = 2 * time.Second
	// A kind that is watched is asked for only every so many times, or when there is doubt, and dropped when it was missing
	// so often in a row: an API server that just starts may not know all it serves.
	lookRarely, missesToDrop = 10, 3
	// How long the first session waits for the objects. What forbids them must not keep gangs without objects waiting.
	objectPatience = 10 * time.Second
)

// objectFeed watches the kinds of objects that declare gangs, as far as the cluster serves them.
type objectFeed struct {
	stub *stub
	// served says whether the API server has this resource; an error means that it is not known.
	served  func(source) (bool, error)
	client  dynamic.Interface
	watches map[pb.GangSource]*objectWatch
	// logged are the errors that were, so that one that lasts fills no log.
	logged map[pb.GangSource]string
}

type objectWatch struct {
	stop   context.CancelFunc
	synced cache.InformerSynced
	// doubtful is set when the API server said that it does not have the resource, and misses counts since when.
	doubtful atomic.Bool
	misses   int
}

func newObjectFeed(s *stub, config *rest.Config) (*objectFeed, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	lookup, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &objectFeed{
		stub: s, served: servedBy(lookup), client: client,
		watches: map[pb.GangSource]*objectWatch{}, logged: map[pb.GangSource]string{},
	}, nil
}

func servedBy(lookup discovery.ServerResourcesInterface) func(source) (bool, error) {
	return func(from source) (bool, error) {
		list, err := lookup.ServerResourcesForGroupVersion(from.resource.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == from.resource.Resource }), nil
	}
}

// start looks for the first time and returns when the objects there are have been read, or patience is over.
func (f *objectFeed) start(ctx context.Context) {
	f.look(ctx, true)
	var synced []cache.InformerSynced
	for _, watch := range f.watches {
		synced = append(synced, watch.synced)
	}
	patience, cancel := context.WithTimeout(ctx, objectPatience)
	defer cancel()
	if !cache.WaitForCacheSync(patience.Done(), synced...) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(nil, "Not all PodGroups could be read; gangs that need them are held until they can", "after", objectPatience)
	}
}

// run keeps looking until ctx ends.
func (f *objectFeed) run(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f.look(ctx, round%lookRarely == 0)
		}
	}
}

// look starts a watch for each kind that is served now, and ends it for one that is no more.
func (f *objectFeed) look(ctx context.Context, all bool) {
	logger := klog.FromContext(ctx)
	for _, from := range sources {
		watch := f.watches[from.kind]
		if watch != nil && !watch.doubtful.Load() && watch.misses == 0 && !all {
			continue
		}
		served, err := f.served(from)
		switch {
		case err != nil:
			if text := err.Error(); f.logged[from.kind] != text {
				f.logged[from.kind] = text
				logger.Info("It is not known whether PodGroups are served", "resource", from.resource, "err", err)
			}
		case served && watch == nil:
			logger.Info("Watching PodGroups", "resource", from.resource)
			f.watches[from.kind] = f.watch(ctx, from)
			delete(f.logged, from.kind)
		case served:
			watch.misses = 0
			watch.doubtful.Store(false)
		case watch != nil:
			if watch.misses++; watch.misses == missesToDrop {
				logger.Info("PodGroups are no longer served", "resource", from.resource)
				watch.stop()
				delete(f.watches, from.kind)
				f.stub.objectsGone(from.kind)
			}
		}
	}
}

func (f *objectFeed) watch(ctx context.Context, from source) *objectWatch {
	ctx, cancel := context.WithCancel(ctx)
	informer := dynamicinformer.NewFilteredDynamicInformer(f.client, from.resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	w := &objectWatch{stop: cancel}
	// None of these fails before the informer has started.
	utilruntime.Must(informer.SetTransform(withoutBulk))
	utilruntime.Must(informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			w.doubtful.Store(true)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}))
	registration, err := informer.AddEventHandler(f.stub.objectHandler(from))
	utilruntime.Must(err)
	w.synced = registration.HasSynced
	go informer.RunWithContext(ctx)
	return w
}

// withoutBulk drops what nobody reads, before it is kept.
func withoutBulk(obj any) (any, error) {
	if object, ok := obj.(*unstructured.Unstructured); ok {
		object.SetManagedFields(nil)
		delete(object.Object, "status")
	}
	return obj, nil
}
