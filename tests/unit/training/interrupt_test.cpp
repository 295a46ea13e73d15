#include "training/loop/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace spillway::training {
namespace {

TEST(Interrupt, TheFirstSignalIsOnlyNoted) {
  const Interrupt interrupt;
  EXPECT_FALSE(Interrupt::requested());
  std::raise(SIGINT);
  EXPECT_TRUE(Interrupt::requested());
}

TEST(Interrupt, ANewOneStartsWithoutAWish) {
  {
    const Interrupt interrupt;
    std::raise(SIGTERM);
    EXPECT_TRUE(Interrupt::requested());
  }
  const Interrupt interrupt;
  EXPECT_FALSE(Interrupt::requested());
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const Interrupt interrupt;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace spillway::training
