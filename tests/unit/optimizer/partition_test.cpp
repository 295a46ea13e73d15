#include "optimizer/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "spillway/core/error.h"

namespace spillway::optimizer {
namespace {

using kernels::MasterKind;
using kernels::MomentFormat;

PartitionOptions options_for(double fraction, Bytes chunk = 64_KiB) {
  PartitionOptions options;
  options.fraction = fraction;
  options.chunk_bytes = chunk;
  options.fp32_format = {.parameter = DType::kFloat32, .master = MasterKind::kParameter};
  return options;
}

std::vector<ParameterShape> shapes(const std::vector<std::int64_t>& sizes) {
  std::vector<ParameterShape> result;
  for (const std::int64_t size : sizes) result.push_back({.num_elements = size});
  return result;
}

/// Sorted, gapless and without overlap, per parameter.
void expect_covers_all(const Partition& partition, const std::vector<ParameterShape>& parameters) {
  std::map<int, std::vector<Segment>> by_parameter;
  for (const auto* blocks : {&partition.resident, &partition.chunks})
    for (const StateBlock& block : *blocks)
      for (const Segment& segment : block.segments)
        by_parameter[segment.parameter].push_back(segment);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto& segments = by_parameter[static_cast<int>(i)];
    std::ranges::sort(segments, {}, &Segment::offset);
    std::int64_t end = 0;
    for (const Segment& segment : segments) {
      EXPECT_EQ(segment.offset, end) << "parameter " << i;
      EXPECT_GT(segment.num_elements, 0);
      end = segment.offset + segment.num_elements;
    }
    EXPECT_EQ(end, parameters[i].num_elements) << "parameter " << i;
  }
}

void expect_planes_do_not_overlap(const StateBlock& block) {
  std::int64_t end = 0;
  for (const Segment& segment : block.segments) {
    EXPECT_GE(segment.first_element, end);
    EXPECT_EQ(segment.first_element % 8, segment.offset % 8);
    end = segment.first_element + segment.num_elements;
  }
  EXPECT_LE(end, block.plane_elements);
}

TEST(Partition, HostShareFollowsTheFractionToTheElement) {
  const auto equal = shapes(std::vector<std::int64_t>(10, 1000));
  for (int k = 0; k <= 10; ++k)
    EXPECT_EQ(make_partition(equal, options_for(k / 10.0)).num_offloaded, 1000 * k) << k;
  EXPECT_EQ(make_partition(shapes({100, 200, 300, 400}), options_for(0.5)).num_offloaded, 500);
  EXPECT_EQ(make_partition(shapes({100, 300, 600}), options_for(0.5)).num_offloaded, 500);
  EXPECT_EQ(make_partition(shapes({900, 100}), options_for(0.1)).num_offloaded, 100);
  EXPECT_EQ(make_partition(shapes({7}), options_for(0.5)).num_offloaded, 4);
}

TEST(Partition, TheLastElementsAreOffloaded) {
  const Partition partition = make_partition(shapes({100, 200, 300, 400}), options_for(0.55));
  ASSERT_EQ(partition.chunks.size(), 1U);
  const auto& segments = partition.chunks[0].segments;
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(segments[0].parameter, 2);
  EXPECT_EQ(segments[0].offset, 150);
  EXPECT_EQ(segments[1].parameter, 3);
  EXPECT_EQ(segments[1].offset, 0);
}

TEST(Partition, EveryElementIsInExactlyOneSegmentForOddSizesAndAnyFraction) {
  std::vector<ParameterShape> parameters =
      shapes({1, 7, 8, 9, 0, 15, 16, 17, 31, 33, 999, 1000, 1001, 1557, 105, 20011});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].dtype = i % 3 == 0 ? DType::kFloat32 : DType::kBFloat16;
    parameters[i].first_layer = static_cast<int>((i * 7) % 5);
  }
  for (const MomentFormat moment : {MomentFormat::kFloat32, MomentFormat::kBlock8}) {
    for (int percent = 0; percent <= 100; percent += 5) {
      PartitionOptions options = options_for(percent / 100.0, 16_KiB);
      options.bf16_format.exp_avg = moment;
      const Partition partition = make_partition(parameters, options);
      expect_covers_all(partition, parameters);
      for (const StateBlock& chunk : partition.chunks) {
        expect_planes_do_not_overlap(chunk);
        EXPECT_LE(chunk.planes.total, options.chunk_bytes);
        EXPECT_LE(chunk.plane_elements * staged_bytes_per_element(chunk.format),
                  options.chunk_bytes.value);
      }
      for (const StateBlock& block : partition.resident) expect_planes_do_not_overlap(block);
    }
  }
}

TEST(Partition, EmptyParametersAreAllowedAlone) {
  const Partition partition = make_partition(shapes({0, 0}), options_for(1.0));
  EXPECT_EQ(partition.num_elements, 0);
  EXPECT_TRUE(partition.chunks.empty());
  EXPECT_TRUE(partition.resident.empty());
}

TEST(Partition, CountsBeyondTwoToTheThirtyFirst) {
  const std::int64_t count = (std::int64_t{1} << 31) + 8;
  for (const double fraction : {0.0, 0.5, 1.0}) {
    const auto parameters = shapes({count, 3});
    const Partition partition = make_partition(parameters, options_for(fraction, 256_MiB));
    EXPECT_EQ(partition.num_elements, count + 3);
    EXPECT_EQ(partition.num_offloaded, std::llround(fraction * static_cast<double>(count + 3)));
    expect_covers_all(partition, parameters);
  }
  const Partition resident = make_partition(shapes({count}), options_for(0.0));
  EXPECT_EQ(resident.resident[0].planes.exp_avg_sq.value, 2 * round_up(4 * count, 64));
  EXPECT_EQ(resident.resident[0].exact_state_bytes().value, 12 * count);
}

TEST(Partition, ChunksComeInTheOrderOfTheNextForward) {
  std::vector<ParameterShape> parameters = shapes({3000, 3000, 3000, 3000});
  parameters[0].first_layer = 3;
  parameters[1].first_layer = 0;
  parameters[2].first_layer = 2;
  parameters[3].first_layer = 1;
  const Partition partition = make_partition(parameters, options_for(1.0, 16_KiB));
  EXPECT_GT(partition.chunks.size(), 4U);
  EXPECT_TRUE(std::ranges::is_sorted(partition.chunks, {}, &StateBlock::first_layer));
  EXPECT_EQ(partition.chunks.front().segments[0].parameter, 1);
  EXPECT_EQ(partition.chunks.back().segments.back().parameter, 0);
}

TEST(Partition, ElementsThatShareAScaleStayTogether) {
  PartitionOptions options = options_for(0.37, 16_KiB);
  options.bf16_format.exp_avg = MomentFormat::kBlock8;
  options.bf16_format.exp_avg_sq = MomentFormat::kBlock8;
  const Partition partition = make_partition(shapes({100, 30001}), options);
  for (const StateBlock& chunk : partition.chunks)
    for (const Segment& segment : chunk.segments)
      EXPECT_EQ(segment.offset % kernels::kQuantBlock, 0);
  EXPECT_LE(std::abs(partition.num_offloaded - std::llround(0.37 * 30101)),
            kernels::kQuantBlock / 2);
}

TEST(Partition, BytesOfEachStateFormat) {
  const auto host_bytes = [](kernels::UpdateFormat format) {
    PartitionOptions options = options_for(1.0, 1_MiB);
    options.bf16_format = format;
    return make_partition(shapes({1024}), options).chunks.at(0).exact_state_bytes().value;
  };
  EXPECT_EQ(host_bytes({.master = MasterKind::kFloat32}), 12 * 1024);
  EXPECT_EQ(host_bytes({.master = MasterKind::kRemainder}), 10 * 1024);
  EXPECT_EQ(host_bytes({.exp_avg = MomentFormat::kBFloat16, .exp_avg_sq = MomentFormat::kBFloat16}),
            8 * 1024);
  EXPECT_EQ(host_bytes({.exp_avg = MomentFormat::kBlock8, .exp_avg_sq = MomentFormat::kBlock8}),
            6 * 1024 + 2 * 4 * 4);
  EXPECT_EQ(host_bytes({.algorithm = Algorithm::kSgd}), 8 * 1024);
}

TEST(Partition, RefusesAFractionOutsideTheRangeAndAChunkThatHoldsNothing) {
  EXPECT_THROW((void)make_partition(shapes({8}), options_for(1.5)), ConfigError);
  EXPECT_THROW((void)make_partition(shapes({8}), options_for(-0.1)), ConfigError);
  EXPECT_THROW((void)make_partition(shapes({8}), options_for(std::nan(""))), ConfigError);
  EXPECT_THROW((void)make_partition(shapes({8}), options_for(1.0, 100_B)), ConfigError);
}

}  // namespace
}  // namespace spillway::optimizer
