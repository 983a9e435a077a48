import ArgumentParser

struct Run: AsyncParsableCommand { func run() async throws {} }
