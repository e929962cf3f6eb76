/* A number that travels around all ranks. Rank 0 prints where each rank runs, and how long the
 * number takes, in milliseconds, the median of many turns. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define TURNS 21

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks, length, number = 0;
    char name[MPI_MAX_PROCESSOR_NAME] = {0};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(name, &length);
    if (rank == 0) {
        printf("hosts %s", name);
        for (int other = 1; other < ranks; other++) {
            MPI_Recv(name, sizeof name, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf(" %s", name);
        }
        printf("\n");
    } else {
        MPI_Send(name, sizeof name, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    double times[TURNS];
    for (int turn = 0; turn < TURNS; turn++) {
        double began = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(&number, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
            MPI_Recv(&number, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&number, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            number++;
            MPI_Send(&number, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
        }
        times[turn] = 1e3 * (MPI_Wtime() - began);
    }
    if (rank == 0) {
        qsort(times, TURNS, sizeof times[0], ascending);
        printf("number %d\nturn %.3f\n", number, times[TURNS / 2]);
    }
    MPI_Finalize();
    return 0;
}
