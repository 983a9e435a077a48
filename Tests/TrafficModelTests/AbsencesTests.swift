import Testing

@testable import TrafficEvents
@testable import TrafficModel

@Suite("Absences")
struct AbsencesTests {
    @Test("a socket counts as closed after several lists in a row without it, and absences then count from the start")
    func countsAsClosed() {
        var absences = Absences()
        for _ in 1...3 {
            for _ in 1..<CaptureEvent.censusesUntilClosed { #expect(absences.note([7, 8]).isEmpty) }
            #expect(Set(absences.note([7, 8])) == [7, 8])
        }
    }

    @Test("a socket that is listed again counts absences from the start")
    func back() {
        var absences = Absences()
        for _ in 1..<CaptureEvent.censusesUntilClosed { #expect(absences.note([7]).isEmpty) }
        #expect(absences.note([]).isEmpty)
        for _ in 1..<CaptureEvent.censusesUntilClosed { #expect(absences.note([7]).isEmpty) }
        #expect(absences.note([7]) == [7])
    }
}
