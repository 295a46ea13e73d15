#include "planner/plan/ways_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "spillway/config/validate.h"

namespace spillway::planner {
namespace {

constexpr std::int64_t kMostRanks = 4096;

bool is_valid(const Variant& variant, const Cluster& cluster) {
  return !config::has_errors(config::validate(variant.config, static_cast<int>(cluster.num_ranks)));
}

/// The variant as it is if it fits, else with the smallest fraction that makes it fit.
std::optional<WayOut> way_out(const Planner& planner, Variant variant, const Cluster& cluster,
                              std::string what) {
  if (!is_valid(variant, cluster)) return std::nullopt;
  WayOut out{std::move(what), {}, cluster.num_ranks, 0.0};
  if (!planner.fits_device(variant, cluster, Framework::kSpillway)) {
    const int percent = planner.smallest_percent(variant, cluster, Framework::kSpillway);
    variant = with_optimizer(std::move(variant), percent);
    out.fraction = percent / 100.0;
    if (!planner.fits_device(variant, cluster, Framework::kSpillway)) return std::nullopt;
  }
  out.overrides = std::move(variant.overrides);
  return out;
}

using ParallelSize = std::int64_t config::ModelConfig::*;

Variant with_parallel(Variant variant, const char* key, ParallelSize size, std::int64_t parts) {
  auto& model = variant.config.model;
  model.*size = parts;
  variant.overrides.push_back(fmt::format("model.{}={}", key, parts));
  const bool needs_sequence_parallel =
      model.num_moe_experts && model.tensor_model_parallel_size > 1 && !model.sequence_parallel;
  if (needs_sequence_parallel) {
    model.sequence_parallel = true;
    variant.overrides.emplace_back("model.sequence_parallel=True");
  }
  return variant;
}

/// Doubles a parallel size until something fits.
std::optional<WayOut> more_parallel(const Planner& planner, const Variant& base,
                                    const Cluster& cluster, const char* key, ParallelSize size,
                                    std::int64_t most) {
  for (std::int64_t parts = 2 * base.config.model.*size; parts <= most; parts *= 2) {
    auto found =
        way_out(planner, with_parallel(base, key, size, parts), cluster,
                fmt::format("model.{}={} on the same {} GPUs", key, parts, cluster.num_ranks));
    if (found) return found;
  }
  return std::nullopt;
}

/// Doubles a parallel size together with the number of GPUs.
std::optional<WayOut> grown(const Planner& planner, const Variant& base, Cluster cluster,
                            const char* key, ParallelSize size, std::int64_t most) {
  for (std::int64_t parts = 2 * base.config.model.*size; parts <= most; parts *= 2) {
    cluster.num_ranks *= 2;
    if (cluster.num_ranks > kMostRanks) break;
    auto found = way_out(planner, with_parallel(base, key, size, parts), cluster,
                         fmt::format("model.{}={} on {} GPUs", key, parts, cluster.num_ranks));
    if (found) return found;
  }
  return std::nullopt;
}

std::optional<WayOut> more_ranks(const Planner& planner, const Variant& base, Cluster cluster) {
  const std::int64_t most = std::min(cluster.num_ranks * 64, kMostRanks);
  for (cluster.num_ranks *= 2; cluster.num_ranks <= most; cluster.num_ranks *= 2) {
    auto found = way_out(planner, base, cluster, fmt::format("{} GPUs", cluster.num_ranks));
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace

std::vector<WayOut> find_ways_out(const Planner& planner, const PlanRequest& request) {
  using config::ModelConfig;
  const Variant base = without_offloading(request.config);
  const auto& cluster = request.cluster;
  std::vector<WayOut> out;
  const auto keep = [&](std::optional<WayOut> found) {
    if (found) out.push_back(std::move(*found));
  };
  if (request.config.model.recompute_granularity != "full") {
    keep(way_out(planner, with_full_recompute(base), cluster, "full recompute"));
  }
  keep(more_parallel(planner, base, cluster, "pipeline_model_parallel_size",
                     &ModelConfig::pipeline_model_parallel_size, cluster.num_ranks));
  keep(more_parallel(planner, base, cluster, "tensor_model_parallel_size",
                     &ModelConfig::tensor_model_parallel_size,
                     std::min(cluster.ranks_per_node, cluster.num_ranks)));
  if (request.config.model.num_moe_experts) {
    keep(more_parallel(planner, base, cluster, "expert_model_parallel_size",
                       &ModelConfig::expert_model_parallel_size, cluster.num_ranks));
  }
  keep(more_ranks(planner, base, cluster));
  if (!out.empty()) return out;
  keep(grown(planner, base, cluster, "tensor_model_parallel_size",
             &ModelConfig::tensor_model_parallel_size, cluster.ranks_per_node));
  keep(grown(planner, base, cluster, "pipeline_model_parallel_size",
             &ModelConfig::pipeline_model_parallel_size, kMostRanks));
  return out;
}

}  // namespace spillway::planner
