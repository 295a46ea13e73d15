#include "device/host_registry.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace spillway::device {
namespace {

using Pieces = std::vector<std::pair<std::size_t, std::size_t>>;

Pieces pieces_of(const HostRegistry& registry, std::span<const std::byte> host) {
  Pieces pieces;
  registry.for_each_piece(
      host, [&](std::size_t offset, std::size_t size) { pieces.emplace_back(offset, size); });
  return pieces;
}

TEST(HostRegistry, cuts_where_one_registration_ends) {
  const std::vector<std::byte> memory(100);
  const std::span<const std::byte> all(memory);
  HostRegistry registry;
  registry.add(all, 30_B);
  EXPECT_EQ(pieces_of(registry, all), (Pieces{{0, 30}, {30, 30}, {60, 30}, {90, 10}}));
  EXPECT_EQ(pieces_of(registry, all.subspan(29, 2)), (Pieces{{0, 1}, {1, 1}}));
  EXPECT_EQ(pieces_of(registry, all.subspan(30, 30)), (Pieces{{0, 30}}));
  EXPECT_EQ(pieces_of(registry, all.subspan(95)), (Pieces{{0, 5}}));
}

TEST(HostRegistry, leaves_other_memory_whole) {
  const std::vector<std::byte> memory(100);
  const std::span<const std::byte> all(memory);
  HostRegistry registry;
  registry.add(all.subspan(20, 40), 10_B);
  EXPECT_EQ(pieces_of(registry, all.first(20)), (Pieces{{0, 20}}));
  EXPECT_EQ(pieces_of(registry, all.subspan(60)), (Pieces{{0, 40}}));
  registry.remove(all.data() + 20);
  EXPECT_EQ(pieces_of(registry, all.subspan(20, 40)), (Pieces{{0, 40}}));
}

}  // namespace
}  // namespace spillway::device
