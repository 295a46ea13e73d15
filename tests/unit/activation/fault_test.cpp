#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "spillway/core/error.h"
#include "unit/activation/toy_model.h"

namespace spillway::activation {
namespace {

struct Fixture {
  Fixture() : device(device::open_emulated_device({})), offloader(device, options()) {}

  static ActivationOptions options() {
    ActivationOptions result = offload_layers(3);
    result.double_buffering = true;
    return result;
  }
  void fail_copy(std::int64_t after) {
    device::EmulatedFaults faults;
    faults.fail_copy_after = after;
    device->set_faults(faults);
  }

  std::shared_ptr<device::EmulatedDevice> device;
  ActivationOffloader offloader;
  ToyModel model{device, offloader, equal_layers(4)};
};

/// A whole iteration; the text of the DeviceError that it ended with, or "".
std::string iterate(Fixture& fixture) {
  std::string text;
  try {
    fixture.model.forward(0, 1);
    fixture.model.backward(0);
  } catch (const DeviceError& error) {
    text = error.what();
  }
  fixture.model.drop(0);
  fixture.offloader.end_iteration();
  return text;
}

TEST(ActivationFaults, of_any_single_copy_are_reported_and_the_next_iteration_is_clean) {
  std::int64_t num_copies = 0;
  {
    Fixture fixture;
    EXPECT_EQ(iterate(fixture), "");
    num_copies = fixture.device->transfers().num_copies;
  }
  ASSERT_GT(num_copies, 10);
  for (std::int64_t failing = 0; failing < num_copies; ++failing) {
    Fixture fixture;
    fixture.fail_copy(failing);
    const std::string text = iterate(fixture);
    EXPECT_NE(text.find("injected"), std::string::npos) << "copy " << failing << ": " << text;
    EXPECT_NE(text.find("micro-batch 0"), std::string::npos) << text;
    EXPECT_NE(text.find("model.cpu_offloading"), std::string::npos) << text;
    EXPECT_EQ(fixture.model.num_wrong(), 0);
    EXPECT_EQ(fixture.device->memory().allocated, 0_B) << "copy " << failing;
    EXPECT_EQ(iterate(fixture), "") << "after the failure of copy " << failing;
    EXPECT_EQ(fixture.model.num_wrong(), 0);
  }
}

TEST(ActivationFaults, of_copies_that_nobody_waits_for_do_not_reach_the_next_iteration) {
  for (const std::int64_t failing : {0, 3}) {
    Fixture fixture;
    fixture.fail_copy(failing);
    fixture.model.forward(0, 1);
    fixture.model.drop(0);
    fixture.offloader.end_iteration();
    EXPECT_EQ(iterate(fixture), "");
  }
  Fixture fixture;
  fixture.model.forward(0, 1);
  fixture.fail_copy(0);
  fixture.offloader.begin_backward(0, 3);
  fixture.model.drop(0);
  fixture.offloader.end_iteration();
  EXPECT_EQ(iterate(fixture), "");
  EXPECT_EQ(fixture.model.num_wrong(), 0);
}

TEST(ActivationFaults, without_host_memory_say_so_and_lose_nothing) {
  Fixture fixture;
  device::EmulatedFaults faults;
  faults.fail_allocate_host_after = 0;
  fixture.device->set_faults(faults);
  fixture.offloader.begin_layer(0, 0);
  const auto ticket = fixture.offloader.offload(make_storage(*fixture.device, 8_KiB, 7));
  EXPECT_THROW(fixture.offloader.end_layer(0, 0), OutOfMemory);
  EXPECT_FALSE(fixture.offloader.offloading());
  fixture.offloader.end_iteration();
  EXPECT_TRUE(holds(fixture.offloader.fetch(ticket), 7));
}

TEST(ActivationFaults, without_host_memory_for_a_known_layer_are_told_at_its_beginning) {
  Fixture fixture;
  EXPECT_EQ(iterate(fixture), "");
  device::EmulatedFaults faults;
  faults.fail_allocate_host_after = 0;
  fixture.device->set_faults(faults);
  EXPECT_THROW(fixture.offloader.begin_layer(0, 0), OutOfMemory);
  EXPECT_EQ(iterate(fixture), "");
}

TEST(ActivationFaults, with_pageable_memory_cost_speed_and_nothing_else) {
  Fixture fixture;
  device::EmulatedFaults faults;
  faults.fail_page_lock_after = 1;
  fixture.device->set_faults(faults);
  EXPECT_EQ(iterate(fixture), "");
  EXPECT_EQ(fixture.model.num_wrong(), 0);
}

TEST(ActivationFaults, in_the_middle_of_a_layer_leave_an_offloader_that_works) {
  Fixture fixture;
  fixture.offloader.begin_layer(0, 0);
  auto ticket = fixture.offloader.offload(make_storage(*fixture.device, 8_KiB, 7));
  fixture.offloader.end_iteration();  // an exception ended the forward
  EXPECT_TRUE(holds(fixture.offloader.fetch(ticket), 7));
  ticket.reset();
  EXPECT_EQ(iterate(fixture), "");
  EXPECT_EQ(fixture.model.num_wrong(), 0);
}

TEST(ActivationTickets, that_outlive_their_iteration_keep_their_bytes_and_are_warned_of_once) {
  const auto before = spdlog::default_logger();
  std::ostringstream text;
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "captured", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  {
    Fixture fixture;
    fixture.offloader.begin_layer(0, 0);
    const auto ticket = fixture.offloader.offload(make_storage(*fixture.device, 8_KiB, 7));
    fixture.offloader.end_layer(0, 0);
    fixture.offloader.end_iteration();
    fixture.offloader.end_iteration();
    EXPECT_EQ(fixture.offloader.stats().num_open_tickets, 1);
    EXPECT_EQ(iterate(fixture), "");
    EXPECT_TRUE(holds(fixture.offloader.fetch(ticket), 7));
  }
  spdlog::set_default_logger(before);
  const auto warning = text.str().find("1 saved tensors are still referred to");
  ASSERT_NE(warning, std::string::npos) << text.str();
  EXPECT_EQ(text.str().find("still referred to", warning + 30), std::string::npos);
}

}  // namespace
}  // namespace spillway::activation
