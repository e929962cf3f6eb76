/* Round trips between two MPI ranks, as the job `ranks` measures them.
 *
 * Arguments: seconds, "keep", "touch" or "sleep", and sizes in bytes. With "sleep" a rank that waits
 * for a message sleeps between two tests. Prints for each size "<bytes> <ns of a round trip>". */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Pause between two tests: about the shortest that a kernel gives a thread by default. */
#define PAUSE_NS 50000

enum handling { KEEP, TOUCH, SLEEP };

static void wait_asleep(MPI_Request *request) {
    int is_complete = 0;
    MPI_Test(request, &is_complete, MPI_STATUS_IGNORE);
    while (!is_complete) {
        struct timespec pause = {0, PAUSE_NS};
        nanosleep(&pause, NULL);
        MPI_Test(request, &is_complete, MPI_STATUS_IGNORE);
    }
}

static void send_to(unsigned char *buffer, int bytes, int to, enum handling handling) {
    if (handling == SLEEP) {
        MPI_Request request;
        MPI_Isend(buffer, bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD, &request);
        wait_asleep(&request);
        return;
    }
    if (handling == TOUCH) memset(buffer, buffer[bytes - 1] + 1, bytes);
    MPI_Send(buffer, bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD);
}

static void receive(unsigned char *buffer, int bytes, int from, enum handling handling) {
    if (handling == SLEEP) {
        MPI_Request request;
        MPI_Irecv(buffer, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, &request);
        wait_asleep(&request);
        return;
    }
    MPI_Recv(buffer, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (handling != TOUCH) return;
    uint64_t sum = 0;
    for (int at = 0; at < bytes; at++) sum += buffer[at];
    if (sum != (uint64_t)buffer[bytes - 1] * bytes) {
        fprintf(stderr, "a message was mixed with an older one\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Seconds that some round trips take, as rank 0 measures them. */
static double measure(unsigned char *buffer, int bytes, int rank, enum handling handling,
                      long repetitions) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long round = 0; round < repetitions; round++) {
        if (rank == 0) {
            send_to(buffer, bytes, 1, handling);
            receive(buffer, bytes, 1, handling);
        } else {
            receive(buffer, bytes, 0, handling);
            send_to(buffer, bytes, 0, handling);
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
        if (rank == 0) fprintf(stderr, "usage: round_trips SECONDS keep|touch|sleep BYTES..., 2 ranks\n");
        MPI_Finalize();
        return 2;
    }
    double enough = atof(argv[1]);
    enum handling handling = KEEP;
    if (strcmp(argv[2], "touch") == 0) handling = TOUCH;
    if (strcmp(argv[2], "sleep") == 0) handling = SLEEP;
    for (int at = 3; at < argc; at++) {
        int bytes = atoi(argv[at]);
        unsigned char *buffer = calloc(bytes, 1);
        long repetitions = 1;
        double elapsed;
        while ((elapsed = measure(buffer, bytes, rank, handling, repetitions)) < enough)
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
