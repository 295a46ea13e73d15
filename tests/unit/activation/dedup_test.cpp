#include "unit/activation/toy_model.h"

namespace spillway::activation {
namespace {

struct Fixture {
  std::shared_ptr<device::EmulatedDevice> device = device::open_emulated_device({});
  ActivationOffloader offloader{device, offload_layers(4)};

  std::shared_ptr<Ticket> offload_in_layer(int layer, const SavedStorage& storage,
                                           int micro_batch = 0) {
    offloader.begin_layer(micro_batch, layer);
    auto ticket = offloader.offload(storage);
    offloader.end_layer(micro_batch, layer);
    return ticket;
  }
  void pass_layer(int layer) {
    offloader.begin_layer(0, layer);
    offloader.end_layer(0, layer);
  }
};

/// A storage that knows whether it still lives.
SavedStorage revivable(SavedStorage storage) {
  storage.revive = [weak = std::weak_ptr<void>(storage.keep_alive)] { return weak.lock(); };
  return storage;
}

TEST(ActivationDedup, a_storage_saved_twice_in_a_layer_is_copied_once) {
  Fixture fixture;
  fixture.offloader.begin_layer(0, 0);
  const SavedStorage storage = make_storage(*fixture.device, 8_KiB, 3);
  const auto first = fixture.offloader.offload(storage);
  const auto second = fixture.offloader.offload(storage);
  fixture.offloader.end_layer(0, 0);
  const ActivationStats stats = fixture.offloader.stats();
  EXPECT_EQ(stats.moved_out, 8_KiB);
  EXPECT_EQ(stats.num_storages, 1);
  EXPECT_EQ(stats.num_deduplicated, 1);
  EXPECT_TRUE(holds(fixture.offloader.fetch(second), 3));
}

TEST(ActivationDedup, a_storage_saved_by_two_layers_is_copied_once_and_both_read_it) {
  Fixture fixture;
  std::shared_ptr<Ticket> first;
  std::shared_ptr<Ticket> second;
  {
    const SavedStorage storage = make_storage(*fixture.device, 8_KiB, 3);
    first = fixture.offload_in_layer(0, storage);
    second = fixture.offload_in_layer(1, storage);
  }
  fixture.pass_layer(2);
  fixture.pass_layer(3);
  fixture.pass_layer(4);
  EXPECT_EQ(fixture.offloader.stats().moved_out, 8_KiB);
  EXPECT_EQ(fixture.offloader.stats().device_resident, 0_B);
  fixture.offloader.begin_backward(0, 1);
  EXPECT_TRUE(holds(fixture.offloader.fetch(second), 3));
  fixture.offloader.end_backward(0, 1);
  fixture.offloader.begin_backward(0, 0);
  EXPECT_TRUE(holds(fixture.offloader.fetch(first), 3));
  fixture.offloader.end_backward(0, 0);
  EXPECT_EQ(fixture.offloader.stats().moved_in, 8_KiB);
}

TEST(ActivationDedup,
     a_table_that_every_layer_saves_goes_once_and_never_comes_back_while_it_lives) {
  Fixture fixture;
  const SavedStorage table = revivable(make_storage(*fixture.device, 8_KiB, 9));
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (int layer = 0; layer < 4; ++layer) tickets.push_back(fixture.offload_in_layer(layer, table));
  fixture.pass_layer(4);
  fixture.pass_layer(5);
  EXPECT_EQ(fixture.offloader.stats().moved_out, 8_KiB);
  EXPECT_EQ(fixture.offloader.stats().num_deduplicated, 3);
  for (int layer = 3; layer >= 0; --layer) {
    fixture.offloader.begin_backward(0, layer);
    const SavedStorage fetched = fixture.offloader.fetch(tickets[static_cast<std::size_t>(layer)]);
    EXPECT_EQ(fetched.data, table.data);
    fixture.offloader.end_backward(0, layer);
  }
  EXPECT_EQ(fixture.offloader.stats().moved_in, 0_B);
}

TEST(ActivationDedup, an_address_used_again_by_another_storage_is_not_mistaken_for_the_first) {
  Fixture fixture;
  // One block of memory that two storages use one after the other.
  const device::Buffer block = fixture.device->allocate(8_KiB, "reused");
  const auto storage_in_block = [&](int value) {
    std::memset(block.data(), value, block.bytes().size());
    return SavedStorage{block.data(), block.bytes(), std::make_shared<int>(value), 0, {}};
  };
  const auto first = fixture.offload_in_layer(0, storage_in_block(1));
  fixture.pass_layer(1);
  fixture.pass_layer(2);
  const auto second = fixture.offload_in_layer(3, storage_in_block(2));
  fixture.pass_layer(4);
  EXPECT_EQ(fixture.offloader.stats().num_storages, 2);
  EXPECT_TRUE(holds(fixture.offloader.fetch(first), 1));
  EXPECT_TRUE(holds(fixture.offloader.fetch(second), 2));
}

TEST(ActivationDedup, another_version_of_the_contents_is_another_storage) {
  Fixture fixture;
  SavedStorage storage = make_storage(*fixture.device, 8_KiB, 1);
  const auto first = fixture.offload_in_layer(0, storage);
  fixture.device->synchronize();
  std::memset(storage.data, 2, storage.bytes.size());
  ++storage.version;
  const auto second = fixture.offload_in_layer(1, storage);
  storage = {};
  fixture.pass_layer(2);
  fixture.pass_layer(4);
  EXPECT_EQ(fixture.offloader.stats().num_storages, 2);
  EXPECT_TRUE(holds(fixture.offloader.fetch(first), 1));
  EXPECT_TRUE(holds(fixture.offloader.fetch(second), 2));
}

TEST(ActivationDedup, micro_batches_do_not_share) {
  Fixture fixture;
  const SavedStorage storage = make_storage(*fixture.device, 8_KiB, 3);
  const auto first = fixture.offload_in_layer(0, storage, 0);
  const auto second = fixture.offload_in_layer(0, storage, 1);
  EXPECT_EQ(fixture.offloader.stats().num_storages, 2);
  EXPECT_EQ(fixture.offloader.stats().moved_out, 16_KiB);
}

TEST(ActivationFloor, is_kept_exactly_and_what_is_below_it_stays_where_it_is) {
  Fixture fixture;
  fixture.offloader.begin_layer(0, 0);
  const SavedStorage below = make_storage(*fixture.device, 1_KiB - 1_B, 1);
  const SavedStorage at = make_storage(*fixture.device, 1_KiB, 2);
  const auto stays = fixture.offloader.offload(below);
  const auto moves = fixture.offloader.offload(at);
  const auto empty = fixture.offloader.offload({});
  fixture.offloader.end_layer(0, 0);
  fixture.pass_layer(1);
  EXPECT_EQ(fixture.offloader.stats().moved_out, 1_KiB);
  EXPECT_EQ(fixture.offloader.stats().device_resident, 1_KiB - 1_B);
  EXPECT_EQ(fixture.offloader.fetch(stays).data, below.data);
  EXPECT_NE(fixture.offloader.fetch(moves).data, at.data);
  EXPECT_EQ(fixture.offloader.fetch(empty).bytes, 0_B);
}

}  // namespace
}  // namespace spillway::activation
