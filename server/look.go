package server

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/internal/badinput"
)

var lookRoutes = []route{
	{"GET /v1/status/{entity}/{resource}", RoleTake | RoleRead, (*server).status},
	{"GET /v1/status/{entity}", RoleTake | RoleRead, (*server).status},
	{"GET /v1/buckets", RoleRead, (*server).buckets},
	{"GET /v1/nodes", RoleRead, (*server).nodes},
	{"GET /v1/me", RoleNone, (*server).me},
	{"POST /v1/explain", RoleTake | RoleRead, (*server).explain},
	{"POST /v1/explain/request", RoleRead, (*server).explainRequest},
}

func newLimitStatus(f *catalog.Figure) client.LimitStatus {
	return client.LimitStatus{
		Entity: f.Entity, Resource: f.Resource, Limit: f.Limit, Rule: f.Rule, Level: f.Level.String(), Capacity: f.Capacity,
		Remaining: f.Remaining, Utilization: f.Utilization, ResetAfter: f.ResetAfter, Unknown: f.Unknown,
		Alarm: f.Alarm, Upgrade: f.Upgrade, Source: f.Source.String(),
	}
}

// status is how an entity stands: on a resource, or on all that it uses.
func (s *server) status(w http.ResponseWriter, r *http.Request, c *caller) error {
	namespace, err := s.namespaceOf(r, c)
	if err != nil {
		return err
	}
	q := takeRequest{Entity: r.PathValue("entity"), Resource: r.PathValue("resource"), Tier: r.URL.Query().Get("tier")}
	if err := s.permit(r, c, &q, namespace); err != nil {
		return err
	}
	return s.standing(w, r, c.own, "", q.subject(namespace))
}

// me is the caller's own standing, by their API key or token.
func (s *server) me(w http.ResponseWriter, r *http.Request, c *caller) error {
	if c.entity == "" {
		return &forbiddenError{"send the API key or token that you send with requests"}
	}
	namespace, err := s.namespaceOf(r, c)
	if err != nil {
		return err
	}
	return s.standing(w, r, true, c.key, catalog.Subject{
		Namespace: namespace, Entity: c.entity, Resource: r.URL.Query().Get("resource"), Tier: c.tier, File: s.file(namespace),
	})
}

// standing tells how who stands, and its key where a resource counts keys. Who
// asks for themselves is not told of limits that the policy does not announce.
func (s *server) standing(w http.ResponseWriter, r *http.Request, own bool, key string, who catalog.Subject) error {
	self, err := s.resolve(r, who)
	if err != nil {
		return err
	}
	answer := client.Status{Entity: who.Entity, Resource: who.Resource, Tier: self.Tier, Limits: []client.LimitStatus{}}
	if s.storeState != nil {
		answer.Store = s.storeState()
	}
	inUse, listed, err := s.inUse(r, who)
	if err != nil {
		return err
	}
	resources := []string{who.Resource}
	if who.Resource == "" {
		var asked []string // without a list, what this node knows
		if !listed && s.activity != nil {
			asked = s.activity.resources(who.Namespace, who.Entity)
		}
		resources = used(who, key, inUse, asked)
	}
	var keys []sluice.Key // of the limits
	for _, resource := range resources {
		asked := who
		if asked.Resource = resource; key != "" && who.File != nil && who.File.Terms[resource].Counts == catalog.Keys {
			asked.Entity, asked.Tier = key, self.Tier
		}
		resolution, err := s.resolve(r, asked)
		if err != nil {
			return err
		}
		figures, err := resolution.Panel(r.Context(), s.limiter, asked.Entity, s.thresholds)
		if err != nil {
			return err
		}
		for i := range figures {
			f := &figures[i]
			if own && f.Unannounced {
				continue
			}
			l, key := newLimitStatus(f), sluice.Key{Namespace: who.Namespace, Entity: f.Entity, Resource: f.Resource, Limit: f.Limit}
			if b := find(inUse, key); b != nil && b.Limit != f.Rule {
				l.LastRule = &b.Limit
				if by := s.thresholds.Alarm(b.Utilization()); who.Tier == "" && !inForce(f.Level, resolution, who.File) && l.Alarm.Worse(by) {
					l.Alarm, l.Upgrade = by, by != catalog.AlarmNone
				}
			}
			if !f.Unknown && l.Alarm.Worse(answer.Alarm) {
				answer.Alarm = l.Alarm
			}
			answer.Limits, keys = append(answer.Limits, l), append(keys, key)
		}
		for i := range inUse {
			if b := &inUse[i]; !own && b.Key.Resource == resource && !slices.Contains(keys, b.Key) {
				answer.Limits, keys = append(answer.Limits, s.leftover(b)), append(keys, b.Key)
			}
		}
	}
	if !slices.ContainsFunc(answer.Limits, func(l client.LimitStatus) bool { return l.Level != "none" }) {
		answer.Alarm = catalog.AlarmNone // nothing is in force
	}
	waiting := s.waiting(r.Context(), keys, answer.Resource)
	for i, a := range s.activities(r.Context(), who.Namespace, keys) {
		answer.Limits[i].Activity = a
		if n, known := waiting[keys[i]]; known {
			answer.Limits[i].WaitingNodes = &n
		}
	}
	return list(w, answer, nil)
}

// maxUsed is how many resources the standing of an entity tells of.
const maxUsed = 50

// inUse are the buckets of an entity that are in use: of a resource, or all, but
// not the doors' own. The limits of a resource are told of even if they cannot
// be listed.
func (s *server) inUse(r *http.Request, who catalog.Subject) (buckets []sluice.Bucket, listed bool, err error) {
	page, err := s.limiter.List(r.Context(), sluice.Query{Namespace: who.Namespace, Entity: who.Entity, Resource: who.Resource, Max: 1000})
	if err != nil && (who.Resource != "" || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, sluice.ErrUnavailable)) {
		return nil, false, nil // without the store it is those that the policy declares, and that this node was asked for
	}
	return slices.DeleteFunc(page.Buckets, func(b sluice.Bucket) bool { return strings.HasPrefix(b.Key.Resource, "$") }), err == nil, err
}

func find(buckets []sluice.Bucket, k sluice.Key) *sluice.Bucket {
	if i := slices.IndexFunc(buckets, func(b sluice.Bucket) bool { return b.Key == k }); i >= 0 {
		return &buckets[i]
	}
	return nil
}

// leftover is the status of a bucket that no level has a limit for now: it was
// taken by limits of a call, of another tier, or that are gone. Nobody can say
// whether those are announced, so it is for operators.
func (s *server) leftover(b *sluice.Bucket) client.LimitStatus {
	used := b.Utilization()
	return client.LimitStatus{
		Entity: b.Key.Entity, Resource: b.Key.Resource, Limit: b.Key.Limit, Rule: b.Limit, Level: "none",
		Capacity: b.Limit.Capacity(), Remaining: b.Remaining, Utilization: used, ResetAfter: b.Reset,
		Alarm: s.thresholds.Alarm(used), Source: sluice.FromStore.String(),
	}
}

// used are the resources that an entity uses now or has asked for, and those by
// which the policy counts it or its key, in order; one without a name if there
// are none.
func used(who catalog.Subject, key string, inUse []sluice.Bucket, asked []string) []string {
	names := asked
	for i := range inUse {
		names = append(names, inUse[i].Key.Resource)
	}
	if who.File != nil {
		for name := range who.File.Terms {
			if who.File.Counts(name, who.Entity) || key != "" && who.File.Counts(name, key) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return []string{""}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxUsed)]
}

// buckets lists those in use: of an entity, of a resource, or all.
func (s *server) buckets(w http.ResponseWriter, r *http.Request, c *caller) error {
	namespace, err := s.namespaceOf(r, c)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	most, err := readMax(query.Get("max"))
	if err != nil {
		return err
	}
	page, err := s.limiter.List(r.Context(), sluice.Query{
		Namespace: namespace, Entity: s.named(query.Get("entity")), Resource: query.Get("resource"),
		Cursor: query.Get("cursor"), Max: most,
	})
	if err != nil {
		return err
	}
	all := make([]client.Bucket, len(page.Buckets))
	keys := make([]sluice.Key, len(page.Buckets))
	for i := range page.Buckets {
		keys[i] = page.Buckets[i].Key
	}
	activities := s.activities(r.Context(), namespace, keys)
	for i := range page.Buckets {
		b := &page.Buckets[i]
		used := b.Utilization()
		all[i] = client.Bucket{
			Entity: b.Key.Entity, Resource: b.Key.Resource, Limit: b.Key.Limit, Rule: b.Limit,
			Remaining: b.Remaining, Held: b.Held, Consumed: b.Consumed, Utilization: used,
			Alarm: s.thresholds.Alarm(used), ResetAfter: b.Reset, LastTaken: b.LastTaken,
			Activity: activities[i],
		}
		all[i].WaitingNodes = &b.Tickets
		if now, ok := s.applies(r, &b.Key); ok && now != b.Limit {
			all[i].Applies = &now
		}
	}
	answer := client.BucketPage{Buckets: all, Next: page.Next}
	if s.storeState != nil {
		answer.Store = s.storeState()
	}
	return list(w, answer, nil)
}

// inForce reports whether an entity's next take goes by a rule of that level,
// whatever tier it comes with: the rule is the entity's own, or its tier's.
func inForce(level sluice.Level, found *catalog.Resolution, file *catalog.Declaration) bool {
	return level >= sluice.LevelEntity || found.Tier != "" && (file == nil || found.Tier != file.DefaultTier)
}

// applies is the limit of that name that is in force for an entity.
func (s *server) applies(r *http.Request, k *sluice.Key) (sluice.Limit, bool) {
	file := s.file(k.Namespace)
	found, err := s.resolver.Resolve(r.Context(), catalog.Subject{Namespace: k.Namespace, Entity: k.Entity, Resource: k.Resource, File: file})
	if err != nil {
		return sluice.Limit{}, false // it is extra
	}
	for _, a := range found.Applied {
		if a.Limit == k.Limit && a.Entity == found.Subject.Entity && inForce(a.Level, found, file) {
			return a.Setting.Limit, true
		}
	}
	return sluice.Limit{}, false
}

// readMax reads how long a page may be.
func readMax(s string) (int, error) {
	if s == "" {
		return 100, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 1000 {
		return 0, badinput.Field("max", s, "must be 1 to 1000")
	}
	return n, nil
}
