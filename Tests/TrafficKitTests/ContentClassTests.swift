import Testing
import TrafficReport

@testable import TrafficKit

@Suite("Content classes")
struct ContentClassTests {
    @Test(
        "case, spaces and parameters do not change the class of a media type",
        arguments: [
            ("application/json", .json), ("application/problem+json", .json), ("application/vnd.api+json", .json),
            ("application/x-ndjson", .json), ("text/json", .json),
            ("text/html", .html), ("application/xhtml+xml", .html),
            ("text/javascript", .script), ("application/javascript", .script), ("text/css", .script),
            ("text/event-stream", .stream), ("application/grpc", .stream), ("video/mp4", .stream),
            ("audio/ogg", .stream),
            ("application/x-www-form-urlencoded", .form), ("multipart/form-data", .form),
            ("image/png", .image), ("image/svg+xml", .image),
            ("text/plain", .text), ("application/xml", .text), ("application/atom+xml", .text),
            ("application/pdf", .other), ("json", .other), ("text", .other), ("é/é", .other), ("", .unknown),
            (";text/html", .unknown),
        ] as [(String, Report.ContentClass)]
    )
    func classes(_ type: String, _ contentClass: Report.ContentClass) {
        for text in [
            type, type.uppercased(), "\t \(type) ", "\(type); charset=utf-8", "\(type) ;a=\"image/png\"",
        ] {
            #expect(Report.ContentClass(mediaType: text) == contentClass, "\(text)")
        }
    }
}
