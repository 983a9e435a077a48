import ArgumentParser
import FuzzCases

@main
struct Trafficfuzz: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trafficfuzz",
        abstract: "Compares the parsers with others, and with the writer: real and made-up traffic, cut and damaged.",
        discussion: "swift run -c release trafficfuzz http1 --count 10000000"
    )

    @Argument(help: "\(Fuzz.subjects.map { $0.name }.joined(separator: ", ")).")
    var subject: String

    @Option(help: "Cases.")
    var count = 1_000_000

    @Option(help: "Of the first case; each has the next one.")
    var seed: UInt64 = 0

    func run() throws {
        guard let subject = Fuzz.subjects.first(where: { $0.name == self.subject }) else {
            throw ValidationError("There is no '\(self.subject)'.")
        }
        let clock = ContinuousClock()
        let start = clock.now
        do {
            try Fuzz.run(subject, seed: self.seed, count: self.count)
        } catch let finding as Fuzz.Finding {
            print(finding)
            throw ExitCode.failure
        }
        print("\(self.subject): \(self.count) cases without a finding, in \(start.duration(to: clock.now))")
    }
}
