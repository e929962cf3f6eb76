/* Round trips between two MPI ranks, as the job `ranks` measures them.
 *
 * Arguments: seconds, "keep" or "touch", and sizes in bytes. Prints for each size
 * "<bytes> <ns of a round trip>". */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void send_to(unsigned char *buffer, int bytes, int to, int touch) {
    if (touch) memset(buffer, buffer[bytes - 1] + 1, bytes);
    MPI_Send(buffer, bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD);
}

static void receive(unsigned char *buffer, int bytes, int from, int touch) {
    MPI_Recv(buffer, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!touch) return;
    uint64_t sum = 0;
    for (int at = 0; at < bytes; at++) sum += buffer[at];
    if (sum != (uint64_t)buffer[bytes - 1] * bytes) {
        fprintf(stderr, "a message was mixed with an older one\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Seconds that some round trips take, as rank 0 measures them. */
static double measure(unsigned char *buffer, int bytes, int rank, int touch, long repetitions) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long round = 0; round < repetitions; round++) {
        if (rank == 0) {
            send_to(buffer, bytes, 1, touch);
            receive(buffer, bytes, 1, touch);
        } else {
            receive(buffer, bytes, 0, touch);
            send_to(buffer, bytes, 0, touch);
        }
    }
    double elapsed = MPI_Wtime() - begin;
    MPI_Bcast(&elapsed, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return elapsed;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 4 || size != 2) {
        if (rank == 0) fprintf(stderr, "usage: round_trips SECONDS keep|touch BYTES..., 2 ranks\n");
        MPI_Finalize();
        return 2;
    }
    double enough = atof(argv[1]);
    int touch = strcmp(argv[2], "touch") == 0;
    for (int at = 3; at < argc; at++) {
        int bytes = atoi(argv[at]);
        unsigned char *buffer = calloc(bytes, 1);
        long repetitions = 1;
        double elapsed;
        while ((elapsed = measure(buffer, bytes, rank, touch, repetitions)) < enough)
            repetitions *= 2;
        if (rank == 0) {
            printf("%d %.1f\n", bytes, elapsed / repetitions * 1e9);
            fflush(stdout);
        }
        free(buffer);
    }
    MPI_Finalize();
    return 0;
}
