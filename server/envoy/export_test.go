package envoy

import healthpb "google.golang.org/grpc/health/grpc_health_v1"

// Health is what the service registers.
func (s *Service) Health() healthpb.HealthServer { return s.health }
