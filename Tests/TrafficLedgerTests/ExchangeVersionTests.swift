import Testing
import TrafficModel
import TrafficReport

@testable import TrafficLedger

@Suite("HTTP version of an exchange")
struct ExchangeVersionTests {
    private static func version(_ records: [Report.Record]) throws -> HTTPVersion? {
        var fixture = LedgerFixture.reporting()
        fixture.report(records)
        return try #require(fixture.reading.exchanges.first).version
    }

    private static func request(_ version: Report.HTTPVersion) -> Report.Record {
        var exchange = Report.Exchange.request(1, from: 0, to: 100)
        exchange.request?.version = version
        return .exchange(exchange)
    }

    private static func response(_ version: Report.HTTPVersion) -> Report.Record {
        var exchange = Report.Exchange.response(1, from: 0, to: 100)
        exchange.response?.version = version
        return .exchange(exchange)
    }

    @Test(
        "every version has OpenTelemetry's name, and there is none where the library names none",
        arguments: zip(Report.HTTPVersion.allCases, [nil, "1.0", "1.1", "2", "3"] as [String?])
    )
    func names(version: Report.HTTPVersion, name: String?) throws {
        #expect(try Self.version([Self.request(version)])?.rawValue == name)
        #expect(try Self.version([Self.response(version)])?.rawValue == name)
    }

    @Test("the response's version counts where the response names one, whichever message comes first")
    func response() throws {
        let records = [Self.request(.http1_1), Self.response(.http1_0)]
        #expect(try Self.version(records) == .http1_0)
        #expect(try Self.version(records.reversed()) == .http1_0)
        #expect(try Self.version([Self.request(.http1_1), Self.response(.unknown)]) == .http1_1)
        #expect(try Self.version([Self.response(.unknown), Self.request(.http1_1)]) == .http1_1)
        #expect(try Self.version([.outcome(1, status: 200)]) == nil)
    }
}
