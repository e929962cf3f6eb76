/* The start and the end of MPI, and nothing else. */
#include <mpi.h>

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Finalize();
    return 0;
}
