// A record keeps the variables of the list, and no secret.
#include "bench/measure/machine/recorded_variables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "bench/measure/machine/machine.hpp"

namespace plumbline::recorded_variables_test {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;

constexpr const char* kKept[] = {"OMP_NUM_THREADS",
                                 "OMP_PROC_BIND",
                                 "GOMP_CPU_AFFINITY",
                                 "MALLOC_MMAP_THRESHOLD_",
                                 "DNNL_MAX_CPU_ISA",
                                 "ONEDNN_MAX_CPU_ISA",
                                 "CUDA_VISIBLE_DEVICES",
                                 "CUDA_DEVICE_MAX_CONNECTIONS",
                                 "NCCL_ALGO",
                                 "NCCL_SOCKET_IFNAME",
                                 "NCCL_IB_HCA",
                                 "NCCL_DEBUG",
                                 "OMPI_MCA_btl",
                                 "OMPI_MCA_btl_tcp_if_include",
                                 "OMPI_MCA_mpi_yield_when_idle",
                                 "OMPI_MCA_coll_libnbc_iallreduce_algorithm",
                                 "PMIX_MCA_gds"};

constexpr const char* kLeftOut[] = {"CUDA_API_KEY",
                                    "CUDA_",
                                    "CUDA",
                                    "CUDA_VISIBLE",
                                    "CUDA_VISIBLE_DEVICES_KEY",
                                    "CUDA_ VISIBLE_DEVICES",
                                    "CUDA_DEVICE_ORDER DEVICE_MAX_CONNECTIONS",
                                    "NCCL_TOKEN",
                                    "NCCL_IB_PASSWORD",
                                    "OMP_SECRET",
                                    "MALLOC_KEY",
                                    "DNNL_LICENSE",
                                    "OMPI_API_KEY",
                                    "OMPI_MCA_",
                                    "OMPI_MCA_SECRET",
                                    "OMPI_MCA_btlsecret",
                                    "OMPI_MCA_orte_precondition_transports",
                                    "OMPI_MCA_orte_hnp_uri",
                                    "OMPI_MCA_plm_rsh_agent",
                                    "PMIX_MCA_gds_key",
                                    "PMIX_SERVER_URI",
                                    "PLUMBLINE_TOKEN",
                                    "AWS_SECRET_ACCESS_KEY",
                                    "HF_TOKEN",
                                    ""};

TEST(RecordedVariables, AreThoseOfAList) {
  for (const char* name : kKept) EXPECT_TRUE(is_recorded_variable(name)) << name;
  for (const char* name : kLeftOut) EXPECT_FALSE(is_recorded_variable(name)) << name;
}

TEST(RecordedVariables, AreAllThatARecordHas) {
  for (const char* name : kKept) setenv(name, "x", 1);
  for (const char* name : kLeftOut) setenv(name, "secret", 1);
  const auto environment = this_machine().environment;
  for (const char* name : kKept) {
    EXPECT_THAT(environment, Contains(Key(name)));
    unsetenv(name);
  }
  for (const auto& [name, value] : environment) EXPECT_NE(value, "secret") << name;
  for (const char* name : kLeftOut) {
    EXPECT_THAT(environment, Not(Contains(Key(name))));
    unsetenv(name);
  }
}

}  // namespace
}  // namespace plumbline::recorded_variables_test
