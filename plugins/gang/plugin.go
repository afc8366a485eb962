// SPDX-License-Identifier: Apache-2.0

// Package gang is the plugin through which kube-scheduler obeys muster-server.
//
// Nothing here decides about gangs: the plugin asks, applies and remembers what it was told. Pods without a gang
// mark leave every extension point at once and cost no message.
//
// Two locks matter. stub.mu orders everything the server is told, so that it sees one history; table.mu guards what the
// server said and is taken under the lock of the scheduling queue. Whoever needs both takes stub.mu first, and nobody
// calls Activate, which takes the queue's lock, while holding either.
package gang

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"muster.dev/muster/plugins/metrics"
	"muster.dev/muster/plugins/pb"
	"muster.dev/muster/plugins/session"
)

// Name is the name of the plugin in the scheduler's configuration.
const Name = "Muster"

// Plugin stands in one profile; all profiles share one stub.
type Plugin struct {
	stub *stub
}

var (
	_ fwk.QueueSortPlugin   = &Plugin{}
	_ fwk.PreEnqueuePlugin  = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.PostFilterPlugin  = &Plugin{}
	_ fwk.ReservePlugin     = &Plugin{}
	_ fwk.PermitPlugin      = &Plugin{}
	_ fwk.SignPlugin        = &Plugin{}
	_ session.Handler       = &stub{}
)

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return Name }

// stub is the scheduler's half of the session: what it told the server and what the server told it.
type stub struct {
	client      *session.Client
	callTimeout time.Duration
	logger      klog.Logger
	// handle is that of the first profile. What is used of it, the waiting pods and the queue, all profiles share.
	handle fwk.Handle
	// profiles are the scheduler names whose pods are ours; complete before the informers start.
	profiles sets.Set[string]
	// frameworks are the profiles by scheduler name; complete before scheduling starts.
	frameworks map[string]framework.Framework
	epoch      string
	table      *table
	room       pacer
	capacity   pacer
	// nodes lists the nodes of the cluster.
	nodes func() []*v1.Node

	// mu orders what the server is told. It is held for moments only and never across the network.
	mu      sync.Mutex
	members map[types.UID]*member
	waits   map[types.UID]*waiter
	objects map[objectKey]*pb.GangObject
	// namespaces are those with gang labels.
	namespaces map[string]map[string]string
	sizing     sizing
	// unbound counts the members that have no node. Written under mu, read without.
	unbound atomic.Int64
}

func newStub(args *MusterArgs, logger klog.Logger, handle fwk.Handle) *stub {
	s := &stub{
		callTimeout: args.CallTimeout.Duration,
		logger:      logger,
		handle:      handle,
		profiles:    sets.New[string](),
		frameworks:  map[string]framework.Framework{},
		epoch:       string(uuid.NewUUID()),
		table:       newTable(),
		members:     map[types.UID]*member{},
		waits:       map[types.UID]*waiter{},
		objects:     map[objectKey]*pb.GangObject{},
		namespaces:  map[string]map[string]string{},
		nodes:       func() []*v1.Node { return nil },
	}
	s.room = pacer{interval: roomInterval, call: s.sendRoom}
	s.capacity = pacer{interval: capacityInterval, call: s.sendCapacity}
	s.client = session.New(args.sessionConfig(), s)
	return s
}

// Factory makes the plugin for every profile of one scheduler.
type Factory struct {
	mu     sync.Mutex
	args   *MusterArgs
	stub   *stub
	synced []cache.InformerSynced
	feed   *objectFeed
}

// NewFactory returns the factory of one scheduler process.
func NewFactory() *Factory { return &Factory{} }

// New is the framework's PluginFactory.
func (f *Factory) New(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := decodeArgs(obj)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stub == nil {
		metrics.Register()
		logger := klog.LoggerWithName(klog.FromContext(ctx), Name)
		s := newStub(args, logger, handle)
		synced, err := s.listen(handle.SharedInformerFactory())
		if err != nil {
			return nil, err
		}
		feed, err := newObjectFeed(s, handle.KubeConfig())
		if err != nil {
			return nil, err
		}
		f.args, f.stub, f.synced, f.feed = args, s, synced, feed
	} else if !reflect.DeepEqual(f.args, args) {
		return nil, fmt.Errorf("args of plugin %s: profile %q has others than %q; all profiles share one session, so give them the same",
			Name, handle.ProfileName(), sets.List(f.stub.profiles)[0])
	}
	f.stub.profiles.Insert(handle.ProfileName())
	return &Plugin{stub: f.stub}, nil
}

// Run holds the session with the server open until ctx ends. It must start only when this process schedules: a replica
// that waits for the leader's lease would take the server away from the leader.
func (f *Factory) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, f.stub.logger)
	// Before the informers are read, an opening would not be all there is.
	if cache.WaitForCacheSync(ctx.Done(), f.synced...) {
		f.feed.start(ctx)
		go f.feed.run(ctx)
		f.stub.client.Run(ctx)
	}
}
